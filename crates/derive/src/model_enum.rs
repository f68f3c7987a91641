//! `#[derive(ModelEnum)]`: an enum without data as the type of a field.
//!
//! The generated code consists of the list of variants (`FieldValue::KIND`) and one `match` for
//! each direction. The number of a variant is the enum's discriminant, so the compiler checks that
//! numbers are unique and fit.

use proc_macro2::{Ident, TokenStream};
use quote::quote;
use syn::ext::IdentExt;
use syn::{Data, DeriveInput, Fields};

use crate::attribute;
use crate::crate_path;
use crate::name;
use crate::problem::Problems;

/// An enum that was read as the type of a field.
struct ModelEnum {
    ident: Ident,
    /// The path of the module that the code refers to.
    path: TokenStream,
    /// True if rows store numbers, false if they store names.
    integer: bool,
    /// The variants, in the order of the source.
    variants: Vec<Variant>,
}

/// A variant, and its name in rows and JSON.
struct Variant {
    ident: Ident,
    /// Default: the identifier in snake case.
    name: String,
}

/// Returns the code for an enum, or its errors.
pub(crate) fn derive(input: &DeriveInput) -> TokenStream {
    let mut problems = Problems::default();
    let read = ModelEnum::read(input, &mut problems);
    problems.or_code(|| read.map(|read| read.code()).unwrap_or_default())
}

impl ModelEnum {
    /// Reads an enum. `None` for another type; other faults are reported, and reading continues.
    fn read(input: &DeriveInput, problems: &mut Problems) -> Option<Self> {
        let items = attribute::items(&input.attrs, &attribute::ENUM, problems);
        let path = crate_path::find(&items, problems);
        let integer = items.iter().find(|item| item.name == "integer");
        if let Some(item) = integer {
            item.bare(problems);
        }
        if !input.generics.params.is_empty() {
            problems.at(&input.generics, "an enum that is a field cannot have generic parameters");
        }
        let Data::Enum(data) = &input.data else {
            problems.at(
                &input.ident,
                "`ModelEnum` is for enums without data; for a struct, derive `Model`",
            );
            return None;
        };
        if data.variants.is_empty() {
            problems.at(&input.ident, "an enum that is a field must have at least one variant");
        }
        let mut variants: Vec<Variant> = Vec::with_capacity(data.variants.len());
        for (position, variant) in data.variants.iter().enumerate() {
            let read = Variant::read(variant, problems);
            if integer.is_some() && variant.discriminant.is_none() {
                let (ident, number) = (&variant.ident, position + 1);
                problems.at(
                    ident,
                    format!(
                        "rows store the number of this variant: write the number, as in `{ident} = \
                         {number}`, so that it stays the same when variants are added or moved"
                    ),
                );
            }
            if let Some(first) = variants.iter().find(|other| other.name == read.name) {
                problems.at(
                    &variant.ident,
                    format!(
                        "the name {:?} is already used by `{}`; rename one of them",
                        read.name, first.ident
                    ),
                );
            }
            variants.push(read);
        }
        let ident = input.ident.clone();
        Some(Self { ident, path, integer: integer.is_some(), variants })
    }

    /// Generates the implementation of `FieldValue`.
    fn code(&self) -> TokenStream {
        let Self { ident, path, variants, .. } = self;
        let listed = variants.iter().map(|Variant { ident, name }| {
            quote!(#path::Variant {
                name: ::std::borrow::Cow::Borrowed(#name),
                number: Self::#ident as i64,
            })
        });
        let stored = if self.integer { quote!(Integer) } else { quote!(Text) };
        let arms = variants.iter().map(|Variant { ident, name }| {
            if self.integer {
                quote!(Self::#ident => #path::ValueRef::Int(Self::#ident as i64))
            } else {
                quote!(Self::#ident => #path::ValueRef::Text(#name))
            }
        });
        let from_row = if self.integer { self.reading_number() } else { self.reading_name() };
        quote! {
            #[automatically_derived]
            #[allow(deprecated)]
            impl #path::FieldValue for #ident {
                const KIND: #path::Kind = #path::Kind::Enum {
                    variants: ::std::borrow::Cow::Borrowed(&[#(#listed),*]),
                    stored: #path::EnumStored::#stored,
                };

                fn to_row<'a>(&'a self, _: &'a #path::Scratch) -> #path::ValueRef<'a> {
                    match self { #(#arms),* }
                }

                fn from_row(value: #path::ValueRef<'_>) -> ::std::option::Option<Self> {
                    #from_row
                }
            }
        }
    }

    /// Generates the conversion of a name to a variant; an unknown name is `None`.
    fn reading_name(&self) -> TokenStream {
        let arms = self.variants.iter().map(
            |Variant { ident, name }| quote!(#name => ::std::option::Option::Some(Self::#ident)),
        );
        quote! {
            match value.as_text()? {
                #(#arms,)*
                _ => ::std::option::Option::None,
            }
        }
    }

    /// Generates the conversion of a number to a variant. It compares one by one, because a pattern
    /// cannot be a cast expression.
    fn reading_number(&self) -> TokenStream {
        let arms = self.variants.iter().map(|Variant { ident, .. }| {
            quote!(if number == Self::#ident as i64 {
                return ::std::option::Option::Some(Self::#ident);
            })
        });
        quote! {
            let number = value.as_int()?;
            #(#arms)*
            ::std::option::Option::None
        }
    }
}

impl Variant {
    /// Reads a variant, and reports one with data.
    fn read(variant: &syn::Variant, problems: &mut Problems) -> Self {
        let ident = variant.ident.clone();
        if !matches!(variant.fields, Fields::Unit) {
            problems.at(
                &variant.fields,
                format!(
                    "a variant is stored in one column and cannot have data: write only `{ident}`, \
                     and store the data in fields of the model or in a `Json<…>`"
                ),
            );
        }
        let mut name = name::snake_case(&ident.unraw().to_string());
        for item in attribute::items(&variant.attrs, &attribute::VARIANT, problems) {
            if let Some(text) = item.text(problems) {
                name = text.value();
                if name.is_empty() || name.contains('\0') {
                    problems.at(
                        text,
                        "a name must not be empty and must not contain the character \
                                       U+0000",
                    );
                }
            }
        }
        Self { ident, name }
    }
}
