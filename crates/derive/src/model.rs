//! `#[derive(Model)]`: reads a struct as a model and generates its code.
//!
//! The code consists of one constant schema, one sequence of statements for each direction between
//! struct and row, and a typed constant for each field. It has no generics, and its only closures
//! are calls of the user's checks, so that a program with hundreds of models still builds fast.
//!
//! ```text
//!  attributes of the struct ─> items ─┐
//!                                     ├─> Model::read ─> checks ─> Model::code
//!  fields ─> Field::read, each ───────┘
//! ```
//!
//! All faults of a definition are collected in [`Problems`]; code is generated only if there are
//! none. `tests/it` has a case for each attribute, and `tests/fail` for each fault.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::ext::IdentExt;
use syn::{Data, DeriveInput, Fields, FieldsNamed};

use crate::attribute::{self, Item};
use crate::crate_path;
use crate::field::{Field, Role, former};
use crate::name;
use crate::problem::Problems;

/// The maximum number of fields in a model: the bits of `FieldSet`.
const FIELDS_MAX: usize = 128;

/// A struct that was read as a model.
struct Model {
    ident: Ident,
    /// The path of the module that the code refers to.
    path: TokenStream,
    /// The name of the table.
    table: String,
    /// The previous name of the table.
    was: Option<String>,
    /// The fields, in the order of the struct, which is that of rows.
    fields: Vec<Field>,
    /// The index of the key.
    key: usize,
    /// The indexes of the fields of a composite key.
    key_fields: Vec<usize>,
    /// The indexes, those of single fields first.
    indexes: Vec<Index>,
    /// True if writes are entered in the history.
    audit: bool,
    /// The named relations: name and path.
    relations: Vec<(String, String)>,
    /// The variant of `SearchLanguage`.
    search_language: Option<Ident>,
}

/// An index of the schema.
#[derive(PartialEq)]
struct Index {
    fields: Vec<usize>,
    unique: bool,
    /// The filter of a partial index.
    filter: Option<String>,
}

/// Returns the code for a struct, or its errors.
pub(crate) fn derive(input: &DeriveInput) -> TokenStream {
    let mut problems = Problems::default();
    let model = Model::read(input, &mut problems);
    problems.or_code(|| model.map(|model| model.code()).unwrap_or_default())
}

/// Returns the fields of a struct with named fields, or reports what the type is instead.
fn named_fields<'a>(input: &'a DeriveInput, problems: &mut Problems) -> Option<&'a FieldsNamed> {
    if !input.generics.params.is_empty() {
        problems.at(
            &input.generics,
            "a model is one table, so its struct cannot have generic parameters or lifetimes; \
             write one struct for each table, with types that own their data",
        );
    }
    match &input.data {
        Data::Struct(data) => match &data.fields {
            Fields::Named(fields) => return Some(fields),
            Fields::Unnamed(fields) => problems.at(
                fields,
                "the fields of a model must have names: write `{ id: i64, name: String \
                             }`",
            ),
            Fields::Unit => problems.at(
                &input.ident,
                "a model must have fields, one of which is the key: write `{ id: i64 }`",
            ),
        },
        Data::Enum(data) => problems.at(
            data.enum_token,
            "a model must be a struct; for an enum that is the type of a field, derive `ModelEnum`",
        ),
        Data::Union(data) => {
            problems.at(data.union_token, "a model must be a struct with named fields");
        }
    }
    None
}

impl Model {
    /// Reads a struct with all its attributes. `None` if it has no named fields; other faults are
    /// reported, and reading continues.
    fn read(input: &DeriveInput, problems: &mut Problems) -> Option<Self> {
        let items = attribute::items(&input.attrs, &attribute::MODEL, problems);
        let path = crate_path::find(&items, problems);
        let named = named_fields(input, problems)?;
        let fields: Vec<Field> = named
            .named
            .iter()
            .filter_map(|field| {
                let ident = field.ident.as_ref()?;
                Some(Field::read(field, ident, &input.ident, &path, problems))
            })
            .collect();
        let mut model = Self {
            ident: input.ident.clone(),
            path,
            table: name::snake_case(&input.ident.unraw().to_string()),
            was: None,
            fields,
            key: 0,
            key_fields: Vec::new(),
            indexes: Vec::new(),
            audit: false,
            relations: Vec::new(),
            search_language: None,
        };
        model.name_table(&items, problems);
        model.find_key(problems);
        model.check_roles(problems);
        model.check_names(problems);
        model.read_indexes(&items, problems);
        for item in items.iter().filter(|item| item.name == "audit") {
            item.bare(problems);
            model.audit = true;
        }
        model.read_relations(&items, problems);
        model.read_search_language(&items, problems);
        Some(model)
    }

    fn read_search_language(&mut self, items: &[Item], problems: &mut Problems) {
        let Some(item) = items.iter().find(|item| item.name == "search_language") else { return };
        let Some(text) = item.text(problems) else { return };
        if text.value() != "english" {
            problems.at(&text, "unknown language; write `search_language = \"english\"`");
        } else if !self.fields.iter().any(Field::is_searched) {
            problems.at(item, "no field is searched; write `#[model(search)]` on a field");
        }
        self.search_language = Some(Ident::new("English", Span::call_site()));
    }

    /// Sets the names of the table, and checks them.
    fn name_table(&mut self, items: &[Item], problems: &mut Problems) {
        let mut span = self.ident.span();
        let mut way_out = "; add `#[model(table = \"…\")]`";
        if let Some(item) = items.iter().find(|item| item.name == "table")
            && let Some(text) = item.text(problems)
        {
            self.table = text.value();
            span = text.span();
            way_out = "";
        }
        if let Some(item) = items.iter().find(|item| item.name == "was") {
            self.was = item.former_name(problems);
        }
        if let Some(fault) = name::fault(&self.table) {
            problems.at_span(span, format!("{fault}{way_out}"));
        } else if self.table.starts_with("sqlite_") {
            problems
                .at_span(span, format!("names with `sqlite_` are reserved for SQLite{way_out}"));
        }
    }

    /// Finds the key: the field with `key`, otherwise the one called `id`.
    fn find_key(&mut self, problems: &mut Problems) {
        let marked = self.fields.iter().position(|field| field.role == Role::Key);
        let named = || {
            let is_id = |field: &Field| field.ident == "id" && field.role == Role::Plain;
            self.fields.iter().position(is_id)
        };
        let Some(key) = marked.or_else(named) else {
            let model = &self.ident;
            problems.at(
                model,
                format!(
                    "`{model}` has no key: add a field `id: i64`, or write `#[model(key)]` on \
                     the field that is the key"
                ),
            );
            return;
        };
        for second in self.fields[key + 1..].iter().filter(|field| field.role == Role::Key) {
            let (model, first) = (&self.ident, &self.fields[key].ident);
            problems.at_span(
                second.role_span.unwrap_or(second.name_span),
                format!(
                    "`{model}` has a second key next to `{first}`; keep one, and write \
                     `#[model(unique({first}, {0}))]` on the struct for what is unique together, or \
                     a field `key: String` with `#[model(key({first}, {0}))]` for a key of both",
                    second.ident
                ),
            );
        }
        self.fields[key].check_key(problems);
        self.fields[key].role = Role::Key;
        self.key = key;
        self.find_key_fields(problems);
    }

    /// Finds the fields of a composite key.
    fn find_key_fields(&mut self, problems: &mut Problems) {
        let names = &self.fields[self.key].key_of;
        if let [name] = names.as_slice() {
            problems.at(
                name,
                "a composite key has two or more fields; for a key of one field, write \
                 `#[model(key)]` on it",
            );
        }
        let mut found = Vec::with_capacity(names.len());
        for ident in names {
            match self.fields.iter().position(|field| field.ident == *ident) {
                None => problems.at(ident, self.no_such_field(ident)),
                Some(field) if field == self.key => {
                    problems.at(ident, "the key is made of other fields");
                }
                Some(field) if found.contains(&field) => {
                    problems.at(ident, format!("`{ident}` is in this key already"));
                }
                Some(field) => {
                    self.fields[field].check_in_key(ident, problems);
                    found.push(field);
                }
            }
        }
        self.key_fields = found;
    }

    /// Reports a role that two fields have.
    fn check_roles(&self, problems: &mut Problems) {
        for (position, field) in self.fields.iter().enumerate() {
            if matches!(field.role, Role::Plain | Role::Key) {
                continue;
            }
            let same = |other: &&Field| other.role == field.role;
            if let Some(first) = self.fields[..position].iter().find(same) {
                problems.at_span(
                    field.role_span.unwrap_or(field.name_span),
                    format!(
                        "the field `{}` already has this attribute; keep one of the two",
                        first.ident
                    ),
                );
            }
        }
    }

    /// Reports columns and constants with the same name, and too many fields.
    fn check_names(&self, problems: &mut Problems) {
        for (position, field) in self.fields.iter().enumerate() {
            let before = &self.fields[..position];
            // Engines compare names of columns without regard to case.
            let same = |other: &&Field| other.name.eq_ignore_ascii_case(&field.name);
            if let Some(first) = before.iter().find(same) {
                problems.at_span(
                    field.name_span,
                    format!(
                        "the column name `{}` is already used by the field `{}`; rename one of them",
                        field.name, first.ident
                    ),
                );
            } else if let Some(first) = before.iter().find(|one| one.constant == field.constant) {
                problems.at_span(
                    field.ident.span(),
                    format!(
                        "the constant `{}` already belongs to the field `{}`; give this field \
                         another name in Rust",
                        field.constant, first.ident
                    ),
                );
            }
        }
        if let Some(field) = self.fields.get(FIELDS_MAX) {
            problems.at_span(
                field.ident.span(),
                format!(
                    "a model can have at most {FIELDS_MAX} fields, but this one has {}; move some \
                     to another model, or into one `Json` field",
                    self.fields.len()
                ),
            );
        }
    }

    /// Collects the named relations. Their paths are checked when a store is opened, since they
    /// name other tables.
    fn read_relations(&mut self, items: &[Item], problems: &mut Problems) {
        for item in items.iter().filter(|item| item.name == "relation") {
            for (ident, path) in item.pairs(problems) {
                let name = ident.unraw().to_string();
                if self.fields.iter().any(|field| field.name.eq_ignore_ascii_case(&name)) {
                    problems
                        .at(&ident, format!("`{name}` is a field; give the relation another name"));
                } else if self.relations.iter().any(|(other, _)| *other == name) {
                    problems.at(&ident, format!("two relations are called `{name}`; rename one"));
                } else if path.value().trim().is_empty() {
                    problems
                        .at(&path, "write the path of the relation, such as `issue_label.label`");
                }
                self.relations.push((name, path.value()));
            }
        }
    }

    /// Collects the indexes of fields and of the struct.
    fn read_indexes(&mut self, items: &[Item], problems: &mut Problems) {
        for (position, field) in self.fields.iter().enumerate() {
            // A unique field has an index already.
            if field.index && !field.unique {
                self.indexes.push(Index { fields: vec![position], unique: false, filter: None });
            }
        }
        for item in items.iter().filter(|item| item.name == "index" || item.name == "unique") {
            let (names, filter) = item.names_where(problems);
            let mut fields = Vec::with_capacity(names.len());
            for ident in &names {
                match self.fields.iter().position(|field| field.ident == *ident) {
                    None => problems.at(ident, self.no_such_field(ident)),
                    Some(field) if fields.contains(&field) => {
                        problems.at(ident, format!("`{ident}` is in this index already"));
                    }
                    Some(field) => fields.push(field),
                }
            }
            let filter = filter.map(|filter| filter.value());
            let index = Index { fields, unique: item.name == "unique", filter };
            let same = |other: &Index| *other == index;
            if !index.fields.is_empty() && self.indexes.iter().any(same) {
                problems.at(item, "the model has this index already; keep one");
            }
            self.indexes.push(index);
        }
    }

    /// Returns the error for an index over an unknown field.
    fn no_such_field(&self, ident: &Ident) -> String {
        let names: Vec<String> = self.fields.iter().map(|field| field.ident.to_string()).collect();
        let near = name::nearest(&ident.to_string(), names.iter().map(String::as_str));
        let hint = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
        let model = &self.ident;
        format!("no field `{ident}` in `{model}`{hint}\nits fields are {}", names.join(", "))
    }

    /// Generates all code for the model.
    fn code(&self) -> TokenStream {
        let columns = self.columns();
        let key_of = self.key_of();
        let schema = self.schema();
        let rows = self.rows();
        let Self { ident, path, table, key, .. } = self;
        let Field { ident: key_ident, of: key_type, .. } = &self.fields[*key];
        let key_trait = quote_spanned!(self.fields[*key].error_span()=>
            <#key_type as #path::Key>::KEY_KIND);
        quote! {
            #columns
            #key_of

            #[automatically_derived]
            #[allow(deprecated)]
            impl #path::Model for #ident {
                const TABLE: &'static str = #table;
                const KEY_KIND: #path::KeyKind = #key_trait;
                type Key = #key_type;

                #schema

                fn key(&self) -> &Self::Key {
                    &self.#key_ident
                }

                fn set_key(&mut self, key: Self::Key) {
                    self.#key_ident = key;
                }

                #rows
            }
        }
    }

    /// Generates the constants of the fields.
    fn columns(&self) -> TokenStream {
        let Self { ident, path, .. } = self;
        let columns = self.fields.iter().enumerate().map(|(position, field)| {
            let Field { visibility, of, name, constant, .. } = field;
            let doc = format!("The field `{name}`, for filters and orders.");
            quote! {
                #[doc = #doc]
                #visibility const #constant: #path::Column<#ident, #of> =
                    #path::Column::new(#position, #name);
            }
        });
        // A program may leave columns unused.
        quote! {
            #[automatically_derived]
            #[allow(dead_code, deprecated, unreachable_pub)]
            impl #ident {
                #(#columns)*
            }
        }
    }

    /// Generates the function that makes a composite key.
    fn key_of(&self) -> TokenStream {
        if self.key_fields.is_empty() {
            return TokenStream::new();
        }
        let Self { ident, path, .. } = self;
        let visibility = &self.fields[self.key].visibility;
        let fields: Vec<&Field> = self.key_fields.iter().map(|&at| &self.fields[at]).collect();
        let names: Vec<&Ident> = fields.iter().map(|field| &field.ident).collect();
        let types: Vec<&TokenStream> = fields.iter().map(|field| &field.of).collect();
        quote! {
            #[automatically_derived]
            #[allow(dead_code, deprecated, unreachable_pub)]
            impl #ident {
                /// Returns the key of the row with these values.
                #[must_use]
                #visibility fn key_of(
                    #(#names: impl ::core::convert::Into<#types>),*
                ) -> ::std::string::String {
                    let scratch = #path::Scratch::new();
                    #(let #names: #types = ::core::convert::Into::into(#names);)*
                    #path::key_text(&[
                        #(<#types as #path::FieldValue>::to_row(&#names, &scratch)),*
                    ])
                }
            }
        }
    }

    /// Generates the schema: two statics, since a constant cannot borrow a value with a destructor.
    fn schema(&self) -> TokenStream {
        let Self { path, table, key, key_fields, audit, relations, .. } = self;
        let search_language = match &self.search_language {
            Some(language) => {
                quote!(::core::option::Option::Some(#path::SearchLanguage::#language))
            }
            None => quote!(::core::option::Option::None),
        };
        let was = former(self.was.as_deref());
        let count = self.fields.len();
        let fields = self.fields.iter().map(|field| field.code(path));
        let indexes = self.indexes.iter().map(|Index { fields, unique, filter }| {
            let filter = match filter {
                None => quote!(::core::option::Option::None),
                Some(filter) => {
                    quote!(::core::option::Option::Some(::std::borrow::Cow::Borrowed(#filter)))
                }
            };
            quote!(#path::Index {
                fields: ::std::borrow::Cow::Borrowed(&[#(#fields),*]),
                unique: #unique,
                filter: #filter,
            })
        });
        let relations = relations.iter().map(|(name, to)| {
            quote!(#path::Relation {
                name: ::std::borrow::Cow::Borrowed(#name),
                path: ::std::borrow::Cow::Borrowed(#to),
            })
        });
        quote! {
            fn schema() -> &'static #path::Schema {
                static FIELDS: [#path::Field; #count] = [#(#fields),*];
                static SCHEMA: #path::Schema = #path::Schema {
                    name: ::std::borrow::Cow::Borrowed(#table),
                    fields: ::std::borrow::Cow::Borrowed(&FIELDS),
                    indexes: ::std::borrow::Cow::Borrowed(&[#(#indexes),*]),
                    key: #key,
                    key_fields: ::std::borrow::Cow::Borrowed(&[#(#key_fields),*]),
                    was: #was,
                    audit: #audit,
                    relations: ::std::borrow::Cow::Borrowed(&[#(#relations),*]),
                    search_language: #search_language,
                };
                &SCHEMA
            }
        }
    }

    /// Generates the conversions. `let … else` for each field instead of `?` on a `Result`: `read`
    /// is a sixth faster, and a model of 10 fields takes 20 ms of a release build instead of 36.
    fn rows(&self) -> TokenStream {
        let path = &self.path;
        let count = self.fields.len();
        let writes = self.fields.iter().enumerate().map(|(position, field)| {
            let Field { ident, of, .. } = field;
            quote_spanned! {field.error_span()=>
                row[#position] = <#of as #path::FieldValue>::to_row(&self.#ident, scratch);
            }
        });
        // Hygienic: users choose the names of fields, and may have a constant of the same name.
        let local = |name: &str| Ident::new(name, Span::mixed_site());
        let (row, values): (_, Vec<Ident>) =
            (local("row"), (0..count).map(|at| local(&format!("v{at}"))).collect());
        let reads =
            self.fields.iter().zip(&values).enumerate().map(|(position, (field, value))| {
                let of = &field.of;
                let read = quote_spanned! {field.error_span()=>
                    <#of as #path::FieldValue>::from_row(*#value)
                };
                quote! {
                    let ::std::option::Option::Some(#value) = #read else {
                        return ::std::result::Result::Err(
                            #path::misfit(#row, #position, <Self as #path::Model>::schema()));
                    };
                }
            });
        let names = self.fields.iter().map(|field| &field.ident);
        quote! {
            fn write<'a>(
                &'a self,
                row: &mut [#path::ValueRef<'a>],
                scratch: &'a #path::Scratch,
            ) {
                // One check of the length instead of one for each field.
                let row = &mut row[..#count];
                #(#writes)*
            }

            fn read(#row: &[#path::ValueRef<'_>]) -> #path::Result<Self> {
                let [#(#values,)* ..] = #row else {
                    return ::std::result::Result::Err(
                        #path::misfit(#row, #row.len(), <Self as #path::Model>::schema()));
                };
                #(#reads)*
                ::std::result::Result::Ok(Self { #(#names: #values),* })
            }
        }
    }
}
