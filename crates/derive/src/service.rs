//! `#[service]`: reads a trait as a contract and generates the code for the server and the client.
//!
//! The trait itself is kept; its futures are made `Send`. Decoding and encoding are in the crate
//! `service`; this file generates only the code that depends on the types.
//!
//! ```text
//!  trait Calculator ──> Method::read, each ──> code
//!                                               ├─ the trait, with `Send` futures
//!                                               ├─ CalculatorService: its contract, and calls on an instance
//!                                               └─ CalculatorClient: calls through a connection
//! ```
//!
//! A method is called by its number, which is its place in the trait; the contract has its name,
//! its parameters and their types, and both sides compare it when they connect.

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens as _, format_ident, quote};
use syn::ext::IdentExt;
use syn::parse::Parser;
use syn::punctuated::Punctuated;
use syn::{
    Attribute, FnArg, GenericArgument, ItemTrait, LitStr, Pat, Path, PathArguments, ReceiverKind,
    ReturnType, Signature, Token, TraitItem, Type,
};

use crate::attribute::Item;
use crate::crate_path;
use crate::name;
use crate::problem::Problems;

/// Marks a method whose calls may be executed twice: they are repeated if the connection breaks.
const IDEMPOTENT: &str = "idempotent";

/// A method of a service, as needed by server and client.
pub(crate) struct Method {
    /// Its name.
    pub(crate) ident: Ident,
    /// Its parameters without `&self`, by name and type.
    pub(crate) parameters: Vec<(Ident, Type)>,
    /// The complete `Result<T>`.
    output: Type,
    /// The type of a successful result.
    pub(crate) result: Type,
    /// Its calls may be executed twice.
    is_retryable: bool,
}

/// The arguments of the attribute.
#[derive(Default)]
pub(crate) struct Given {
    /// `name = "…"`: the name of the service.
    pub(crate) name: Option<LitStr>,
    /// `crate = "…"`: the path of the module with the service's types.
    path: Option<Path>,
}

impl Given {
    /// Reads the arguments of `#[service(…)]` or `#[method(…)]`.
    pub(crate) fn read(attribute: TokenStream, problems: &mut Problems) -> Self {
        let mut given = Self::default();
        let items = Punctuated::<Item, Token![,]>::parse_terminated.parse2(attribute);
        for item in problems.keep(items).unwrap_or_default() {
            match item.name.to_string().as_str() {
                "name" => given.name = item.text(problems),
                "crate" => {
                    given.path = item
                        .text(problems)
                        .and_then(|text| problems.keep(text.parse_with(Path::parse_mod_style)));
                }
                other => problems.at(
                    &item.name,
                    format!("unknown attribute `{other}`; use `name = \"…\"` or `crate = \"…\"`"),
                ),
            }
        }
        if let Some(text) = &given.name
            && let Some(fault) = name::fault(&text.value())
        {
            problems.at(text, fault);
        }
        given
    }

    /// Returns the path of the module that the code refers to.
    pub(crate) fn path(&self) -> TokenStream {
        crate_path::of_services(self.path.as_ref())
    }

    /// Returns the name that was given, otherwise `name`.
    pub(crate) fn name_or(&self, name: String) -> String {
        self.name.as_ref().map_or(name, LitStr::value)
    }
}

/// Returns the code for a trait, or its errors.
pub(crate) fn expand(attribute: TokenStream, item: &ItemTrait) -> TokenStream {
    let mut problems = Problems::default();
    let given = Given::read(attribute, &mut problems);
    if !item.generics.params.is_empty() {
        let message = "a service has one contract, so its trait cannot have generic parameters";
        problems.at(&item.generics, message);
    }
    let mut methods = Vec::new();
    for one in &item.items {
        match one {
            TraitItem::Fn(function) => {
                if let Some(body) = &function.default {
                    problems.at(
                        body,
                        "the methods of a service cannot have a default body: \
                                       implement them in the server",
                    );
                }
                check_receiver(&function.sig, &mut problems);
                let mut attributes = function.attrs.clone();
                attributes.retain(|one| !one.path().is_ident(IDEMPOTENT));
                let is_retryable = attributes.len() < function.attrs.len();
                let method = Method::read(&function.sig, &mut problems);
                methods.extend(method.map(|it| (attributes, Method { is_retryable, ..it })));
            }
            other => problems.at(other, "a service can only have methods"),
        }
    }
    if methods.is_empty() {
        problems.at(&item.ident, "a service must have at least one method");
    }
    problems.or_code(|| code(&given, item, &methods))
}

/// Reports a method that does not take `&self` or is not `async`.
fn check_receiver(signature: &Signature, problems: &mut Problems) {
    let takes_self = signature
        .receiver()
        .is_some_and(|receiver| matches!(receiver.kind, ReceiverKind::Reference(_, _, None)));
    if !takes_self {
        let message = "a method of a service must take `&self`, because several calls can run at \
                       once";
        problems.at(signature, message);
    }
    if signature.asyncness.is_none() {
        problems.at(
            signature,
            "a method of a service must be `async`, because it may be called \
                                from another process",
        );
    }
}

impl Method {
    /// Reads a signature. `None` if the result is not a `Result`; other faults are reported, and
    /// reading continues.
    pub(crate) fn read(signature: &Signature, problems: &mut Problems) -> Option<Self> {
        if !signature.generics.params.is_empty() {
            let message = "a method of a service cannot have generic parameters";
            problems.at(&signature.generics, message);
        }
        let mut parameters = Vec::new();
        for input in &signature.inputs {
            let FnArg::Typed(typed) = input else { continue };
            if let Type::Reference(reference) = &*typed.ty {
                let message = "a parameter must own its data: use `String` for `&str`, and `Vec` \
                               for slices";
                problems.at(reference, message);
            }
            match &*typed.pat {
                Pat::Ident(pat) if pat.by_ref.is_none() && pat.subpat.is_none() => {
                    parameters.push((pat.ident.clone(), (*typed.ty).clone()));
                }
                other => problems.at(other, "a parameter must have a name, which callers use"),
            }
        }
        let output = match &signature.output {
            ReturnType::Type(_, output) => (**output).clone(),
            ReturnType::Default => {
                problems
                    .at(&signature.ident, "any call can fail on its way: return `-> Result<()>`");
                return None;
            }
        };
        let Some(result) = inside_result(&output) else {
            problems.at(&output, "any call can fail on its way: return Marmota's `Result<T>`");
            return None;
        };
        for ty in parameters.iter().map(|(_, ty)| ty).chain([&result]) {
            check_stream(ty, problems);
        }
        let ident = signature.ident.clone();
        Some(Self { ident, parameters, output, result, is_retryable: false })
    }

    /// Returns its entry in the contract.
    pub(crate) fn described(&self, path: &TokenStream) -> TokenStream {
        let name = self.name();
        let form = |ty: &Type| quote!(<#ty as #path::Transfer>::FORM);
        let parameters = self.parameters.iter().map(|(ident, ty)| {
            let (name, text, form) = (ident.unraw().to_string(), type_text(ty), form(ty));
            quote!(#path::Parameter { name: #name, type_name: #text, form: #form })
        });
        let (result, result_form) = (type_text(&self.result), form(&self.result));
        quote! {
            #path::MethodContract {
                name: #name,
                parameters: &[#(#parameters),*],
                result: #result,
                result_form: #result_form,
            }
        }
    }

    /// Returns its name in the contract, without `r#`.
    pub(crate) fn name(&self) -> String {
        self.ident.unraw().to_string()
    }

    /// Returns the code that reads its arguments from `source` into variables with their names.
    pub(crate) fn decoded(&self, source: &Ident) -> TokenStream {
        let idents: Vec<&Ident> = self.parameters.iter().map(|(ident, _)| ident).collect();
        let types = self.parameters.iter().map(|(_, ty)| ty);
        if idents.is_empty() {
            return quote!(#source.end()?;);
        }
        quote! {
            let (#(#idents,)*) = (#(#source.read::<#types>(),)*);
            #source.end()?;
            let (#(::core::option::Option::Some(#idents),)*) = (#(#idents,)*) else {
                return ::core::result::Result::Err(#source.fault());
            };
        }
    }

    /// Returns the code that encodes its arguments.
    pub(crate) fn encoded(&self, path: &TokenStream) -> TokenStream {
        let puts = self.parameters.iter().map(|(ident, _)| {
            let name = ident.unraw().to_string();
            quote!(.put(#name, #ident))
        });
        quote!(#path::generated::Written::new()#(#puts)*)
    }
}

/// Refuses a stream inside another type, if the stream is recognisable by its name. The compiler
/// refuses other cases, with a longer message.
fn check_stream(ty: &Type, problems: &mut Problems) {
    let is_stream = |ident: &Ident| ident == "ItemStream" || ident == "ByteStream";
    let inside = match ty {
        Type::Path(path) => match path.path.segments.last() {
            Some(last) if is_stream(&last.ident) => last.arguments.to_token_stream(),
            _ => ty.to_token_stream(),
        },
        _ => ty.to_token_stream(),
    };
    if mentions(inside, &is_stream) {
        let message = "a stream must be a parameter or the whole result, not a part of one: pass \
                       other data in parameters, or with a separate call";
        problems.at(ty, message);
    }
}

/// Returns true if one of the tokens, at any depth, is a wanted identifier.
fn mentions(tokens: TokenStream, wanted: &impl Fn(&Ident) -> bool) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Ident(ident) => wanted(&ident),
        TokenTree::Group(group) => mentions(group.stream(), wanted),
        _ => false,
    })
}

/// Returns `T` of a `Result<T>`; `None` for other types.
fn inside_result(output: &Type) -> Option<Type> {
    let Type::Path(path) = output else { return None };
    let last = path.path.segments.last()?;
    let PathArguments::AngleBracketed(arguments) = &last.arguments else { return None };
    match (last.ident == "Result", arguments.args.first()) {
        (true, Some(GenericArgument::Type(inside))) => Some(inside.clone()),
        _ => None,
    }
}

/// Returns a type as it is written, with spaces only between words.
fn type_text(ty: &Type) -> String {
    let is_word = |letter: char| letter.is_alphanumeric() || letter == '_';
    let mut text = String::new();
    for part in quote!(#ty).to_string().split_whitespace() {
        if text.ends_with(is_word) && part.starts_with(is_word) {
            text.push(' ');
        }
        text.push_str(part);
    }
    text
}

/// Returns the doc comments among the attributes.
fn docs(attributes: &[Attribute]) -> impl Iterator<Item = &Attribute> {
    attributes.iter().filter(|attribute| attribute.path().is_ident("doc"))
}

/// Generates all code for a service: the trait, the host and the client.
fn code(given: &Given, item: &ItemTrait, methods: &[(Vec<Attribute>, Method)]) -> TokenStream {
    let path = given.path();
    let ItemTrait { attrs, vis, ident, supertraits, .. } = item;
    let supertraits = supertraits.iter();
    let called = given.name_or(name::snake_case(&ident.unraw().to_string()));
    let (service, client) = (format_ident!("{ident}Service"), format_ident!("{ident}Client"));
    let signatures = methods.iter().map(|(attributes, method)| {
        let Method { ident, parameters, output, .. } = method;
        let parameters = parameters.iter().map(|(ident, ty)| quote!(#ident: #ty));
        quote! {
            #(#attributes)*
            fn #ident(
                &self #(, #parameters)*
            ) -> impl ::core::future::Future<Output = #output> + ::core::marker::Send;
        }
    });
    let described = methods.iter().map(|(_, method)| method.described(&path));
    let source = Ident::new("arguments", Span::mixed_site());
    let instance = Ident::new("instance", Span::mixed_site());
    let arms = methods.iter().enumerate().map(|(number, (_, method))| {
        let decoded = method.decoded(&source);
        let called = &method.ident;
        let idents = method.parameters.iter().map(|(ident, _)| ident);
        quote! {
            #number => {
                #decoded
                ::core::result::Result::Ok(#path::generated::prepared(
                    move |#instance: ::std::sync::Arc<T>| async move {
                        <T as #ident>::#called(&#instance #(, #idents)*).await
                    },
                ))
            }
        }
    });
    let calls = methods.iter().enumerate().map(|(number, (_, method))| {
        let Method { ident, parameters, output, .. } = method;
        let parameters = parameters.iter().map(|(ident, ty)| quote!(#ident: #ty));
        let encoded = method.encoded(&path);
        let call = if method.is_retryable { "call_repeatable" } else { "call" };
        let call = Ident::new(call, Span::call_site());
        quote! {
            async fn #ident(&self #(, #parameters)*) -> #output {
                self.0.#call(#number, #encoded).await
            }
        }
    });
    let trait_docs: Vec<_> = docs(attrs).collect();
    let has_docs = !trait_docs.is_empty();
    let fallback = format!("The service `{called}`.");
    let extra_docs = if has_docs { quote!() } else { quote!(#[doc = #fallback]) };
    let hosts = format!("Hosts an implementation of [`{ident}`].");
    let calls_from = format!("A [`{ident}`] that is somewhere else.");
    quote! {
        #extra_docs
        #(#attrs)*
        #vis trait #ident: #(#supertraits +)* ::core::marker::Send + ::core::marker::Sync + 'static {
            #(#signatures)*
        }

        #[doc = #hosts]
        #[derive(Clone, Copy, Debug)]
        #vis struct #service;

        #[allow(dead_code, reason = "a program may have one side only, and one lifetime")]
        impl #service {
            /// Hosts one instance for all calls.
            #vis fn shared<T: #ident>(instance: T) -> #path::Hosted {
                #path::generated::shared::<Self, T>(instance)
            }

            /// Hosts one instance per call, session, user or other unit, as the lifetime defines.
            /// An instance is created by its first call.
            #vis fn per<T: #ident>(
                lifetime: #path::Lifetime,
                make: impl Fn(&#path::Call) -> ::core::result::Result<T, #path::generated::Error>
                    + ::core::marker::Send + ::core::marker::Sync + 'static,
            ) -> #path::Hosted {
                #path::generated::per::<Self, T>(lifetime, make)
            }

            /// Returns a mock of the service for tests, which returns configured answers.
            #vis fn mock() -> #path::Mock {
                #path::generated::mock::<Self>()
            }
        }

        impl #path::generated::Described for #service {
            const CONTRACT: &'static #path::Contract =
                &#path::Contract { name: #called, methods: &[#(#described),*] };
        }

        impl<T: #ident> #path::generated::Dispatch<T> for #service {
            fn prepare(
                method: usize,
                mut #source: #path::generated::Arguments<'_>,
            ) -> ::core::result::Result<#path::generated::Prepared<T>, #path::generated::Error> {
                match method {
                    #(#arms)*
                    _ => ::core::result::Result::Err(#source.no_such_method()),
                }
            }
        }

        #[doc = #calls_from]
        #[derive(Clone, Debug)]
        #vis struct #client(#path::generated::Stub);

        #[allow(dead_code, reason = "a program may have one side only")]
        impl #client {
            /// Finds the service through a client, and checks that both sides have the same
            /// contract.
            ///
            /// # Errors
            /// If there is no service with this name, or if its contract differs.
            #vis async fn new(
                client: &#path::Client,
            ) -> ::core::result::Result<Self, #path::generated::Error> {
                #path::generated::Stub::new::<#service>(client).await.map(Self)
            }
        }

        impl #ident for #client {
            #(#calls)*
        }

        impl #path::Stubbed for #client {
            type Service = #service;

            fn of(stub: #path::generated::Stub) -> Self {
                Self(stub)
            }
        }
    }
}
