//! `#[job]`: makes a function a kind of job, and its parameters a struct.
//!
//! ```text
//!  async fn send_digest(user: i64, context: JobContext) -> Result<()>
//!    ├─ the function, unchanged
//!    ├─ struct SendDigest { user: i64 }       the input, which is enqueued
//!    └─ impl Job for SendDigest               its name, options, unique key, and the call
//! ```

use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};
use syn::ext::IdentExt as _;
use syn::parse::Parser as _;
use syn::punctuated::Punctuated;
use syn::{FnArg, ItemFn, LitInt, LitStr, Pat, Path, Token, Type};

use crate::attribute::Item;
use crate::crate_path;
use crate::name;
use crate::problem::Problems;

/// The arguments of the attribute, for the error of an unknown one.
const KNOWN: &str = "name, queue, retries, timeout, priority, backoff, unique, unique_for, crate";

/// The arguments of the attribute.
#[derive(Default)]
struct Given {
    name: Option<LitStr>,
    path: Option<Path>,
    /// The calls that set options.
    options: Vec<TokenStream>,
    unique: Option<Vec<Ident>>,
}

/// A parameter of the function.
enum Parameter {
    Context,
    Field(Ident, Box<Type>),
}

/// Returns the code for a function, or its errors.
pub(crate) fn expand(attribute: TokenStream, item: &ItemFn) -> TokenStream {
    let mut problems = Problems::default();
    let given = Given::read(attribute, &mut problems);
    let signature = &item.sig;
    if !signature.generics.params.is_empty() {
        let message = "a job is stored by its name, so its function cannot have generic parameters";
        problems.at(&signature.generics, message);
    }
    let mut parameters = Vec::new();
    for input in &signature.inputs {
        parameters.extend(Parameter::read(input, &mut problems));
    }
    if parameters.iter().filter(|one| matches!(one, Parameter::Context)).count() > 1 {
        problems.at(&signature.inputs, "a job function has one `JobContext`");
    }
    if matches!(signature.output, syn::ReturnType::Default) {
        problems.at(&signature.ident, "an attempt can fail: return `-> Result<()>`");
    }
    for field in given.unique.iter().flatten() {
        let is_field =
            |one: &Parameter| matches!(one, Parameter::Field(ident, _) if ident == field);
        if !parameters.iter().any(is_field) {
            problems.at(field, format!("the function has no parameter `{field}`"));
        }
    }
    problems.or_code(|| code(&given, item, &parameters))
}

impl Given {
    fn read(attribute: TokenStream, problems: &mut Problems) -> Self {
        let mut given = Self::default();
        let items = Punctuated::<Item, Token![,]>::parse_terminated.parse2(attribute);
        for item in problems.keep(items).unwrap_or_default() {
            given.take(&item, problems);
        }
        if let Some(text) = &given.name
            && (text.value().is_empty() || text.value().len() > 100)
        {
            problems.at(text, "the name of a job has 1 to 100 bytes");
        }
        given
    }

    fn take(&mut self, item: &Item, problems: &mut Problems) {
        match item.name.to_string().as_str() {
            "name" => self.name = item.text(problems),
            "crate" => {
                self.path = item
                    .text(problems)
                    .and_then(|text| problems.keep(text.parse_with(Path::parse_mod_style)));
            }
            "queue" => {
                let queue = item.text(problems);
                self.options.extend(queue.map(|queue| quote!(.queue(#queue))));
            }
            "retries" => {
                let retries: Option<LitInt> = item.parsed("retries = 5", problems);
                self.options.extend(retries.map(|retries| quote!(.retries(#retries))));
            }
            "priority" => {
                let priority: Option<syn::Expr> = item.parsed("priority = -5", problems);
                self.options.extend(priority.map(|priority| quote!(.priority(#priority))));
            }
            "timeout" => {
                let time = duration(item, problems);
                self.options.extend(time.map(|time| quote!(.timeout(#time))));
            }
            "unique_for" => {
                let time = duration(item, problems);
                self.options.extend(time.map(|time| quote!(.unique_for(#time))));
            }
            "backoff" => {
                let first = duration(item, problems);
                let maximum = quote!(::core::time::Duration::from_secs(3_600));
                self.options.extend(first.map(|first| quote!(.backoff(#first, #maximum))));
            }
            "unique" => self.unique = Some(item.names_or_bare(problems)),
            other => {
                let near = name::nearest(other, KNOWN.split(", "));
                let hint =
                    near.map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
                let message = format!("no attribute `{other}`{hint}\na job has {KNOWN}");
                problems.at(&item.name, message);
            }
        }
    }
}

/// Reads a duration such as `"30s"`: a number with `ms`, `s`, `m`, `h` or `d`.
fn duration(item: &Item, problems: &mut Problems) -> Option<TokenStream> {
    let text = item.text(problems)?;
    let written = text.value();
    let digits = written.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit_ms: Option<u64> = match &written[digits.len()..] {
        "ms" => Some(1),
        "s" => Some(1_000),
        "m" => Some(60_000),
        "h" => Some(3_600_000),
        "d" => Some(86_400_000),
        _ => None,
    };
    let ms =
        unit_ms.zip(digits.parse::<u64>().ok()).and_then(|(unit, number)| number.checked_mul(unit));
    match ms {
        Some(ms) => Some(quote!(::core::time::Duration::from_millis(#ms))),
        None => {
            let message = format!(
                "`{written}` is not a time; write a number with ms, s, m, h or d, as in `\"30s\"`"
            );
            problems.at(&text, message);
            None
        }
    }
}

impl Parameter {
    fn read(input: &FnArg, problems: &mut Problems) -> Option<Self> {
        let FnArg::Typed(typed) = input else {
            problems.at(input, "a job is a function, it cannot take `self`");
            return None;
        };
        if is_context(&typed.ty) {
            return Some(Self::Context);
        }
        if let Type::Reference(reference) = &*typed.ty {
            let message = "a parameter is stored with the job, so it must own its data: use \
                           `String` for `&str`, and `Vec` for slices";
            problems.at(reference, message);
        }
        match &*typed.pat {
            Pat::Ident(pat) if pat.by_ref.is_none() && pat.subpat.is_none() => {
                Some(Self::Field(pat.ident.clone(), typed.ty.clone()))
            }
            other => {
                problems.at(other, "a parameter must have a name: it is a field of the job");
                None
            }
        }
    }
}

/// Returns true for the type `JobContext`, with any path.
fn is_context(ty: &Type) -> bool {
    let Type::Path(path) = ty else { return false };
    path.path.segments.last().is_some_and(|last| last.ident == "JobContext")
}

/// Returns the name of the struct: `SendDigest` for `send_digest`.
fn struct_name(function: &str) -> String {
    function
        .split('_')
        .flat_map(|word| {
            let mut letters = word.chars();
            letters.next().into_iter().flat_map(char::to_uppercase).chain(letters)
        })
        .collect()
}

fn code(given: &Given, item: &ItemFn, parameters: &[Parameter]) -> TokenStream {
    let path = crate_path::of_jobs(given.path.as_ref());
    let (vis, function) = (&item.vis, &item.sig.ident);
    let written = function.unraw().to_string();
    let input = format_ident!("{}", struct_name(&written), span = function.span());
    let called = given.name.as_ref().map_or(written.clone(), LitStr::value);
    let fields = parameters.iter().filter_map(|parameter| match parameter {
        Parameter::Field(ident, ty) => Some((ident, &**ty)),
        Parameter::Context => None,
    });
    let (idents, types): (Vec<&Ident>, Vec<&Type>) = fields.unzip();
    let context = Ident::new("context", proc_macro2::Span::mixed_site());
    let arguments = parameters.iter().map(|parameter| match parameter {
        Parameter::Field(ident, _) => quote!(self.#ident),
        Parameter::Context => quote!(#context.clone()),
    });
    let is_async = item.sig.asyncness.is_some();
    let awaited = is_async.then(|| quote!(.await));
    let blocking = (!is_async).then(|| quote!(.blocking()));
    let options = &given.options;
    let unique = given.unique.as_ref().map(|fields| {
        let fields: Vec<&Ident> =
            if fields.is_empty() { idents.clone() } else { fields.iter().collect() };
        quote! {
            fn unique_key(&self) -> #path::generated::Result<::core::option::Option<::std::string::String>> {
                #path::generated::key(&(#(&self.#fields,)*))
            }
        }
    });
    let doc = format!("The input of a job `{called}`, which [`{written}`] executes.");
    let field_docs = idents.iter().map(|ident| format!("The argument `{}`.", ident.unraw()));
    let serde_path = quote!(#path::generated::serde).to_string().replace(' ', "");
    quote! {
        // The parameters of a job are owned, because they come from the database.
        #[allow(clippy::needless_pass_by_value)]
        #item

        #[doc = #doc]
        #[derive(Clone, Debug, #path::generated::serde::Serialize, #path::generated::serde::Deserialize)]
        #[serde(crate = #serde_path)]
        #vis struct #input {
            #(#[doc = #field_docs] #vis #idents: #types,)*
        }

        impl #path::Job for #input {
            const NAME: &'static str = #called;

            fn options() -> #path::JobOptions {
                #path::JobOptions::new()#(#options)*#blocking
            }

            #unique

            async fn run(self, #context: #path::JobContext) -> ::core::result::Result<(), #path::JobFailure> {
                let _ = &#context;
                #path::generated::ended(#function(#(#arguments),*)#awaited)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::struct_name;

    #[test]
    fn a_struct_has_the_name_of_the_function() {
        assert_eq!(struct_name("send_digest"), "SendDigest");
        assert_eq!(struct_name("mail"), "Mail");
        assert_eq!(struct_name("to_v2"), "ToV2");
    }
}
