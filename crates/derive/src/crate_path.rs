//! The path of the model in generated code: in the facade `marmota` for most programs, or in
//! `marmota-model` for the crates below the facade.

use proc_macro_crate::{FoundCrate, crate_name};
use proc_macro2::{Ident, Span, TokenStream};
use quote::quote;
use syn::Path;

use crate::attribute::Item;
use crate::problem::Problems;

/// Returns the path of the module with `Model`: that of the item `crate = "…"` if it is present.
/// Outside cargo, where dependencies are unknown, it is `::marmota::model`.
pub(crate) fn find(items: &[Item], problems: &mut Problems) -> TokenStream {
    let written = items
        .iter()
        .find(|item| item.name == "crate")
        .and_then(|item| item.text(problems))
        .and_then(|text| problems.keep(text.parse_with(Path::parse_mod_style)));
    if let Some(path) = written {
        return quote!(#path);
    }
    if let Some(facade) = dependency("marmota") {
        return quote!(::#facade::model);
    }
    match dependency("marmota-model") {
        Some(model) => quote!(::#model),
        None => quote!(::marmota::model),
    }
}

/// Returns the path of the module for services: `written` if it is present.
pub(crate) fn of_services(written: Option<&Path>) -> TokenStream {
    if let Some(path) = written {
        return quote!(#path);
    }
    if let Some(facade) = dependency("marmota") {
        return quote!(::#facade::service);
    }
    match dependency("marmota-service") {
        Some(service) => quote!(::#service),
        None => quote!(::marmota::service),
    }
}

/// Returns the path of the module with the types of jobs: that which was written, or the one of the
/// crate that the program depends on.
pub(crate) fn of_jobs(written: Option<&Path>) -> TokenStream {
    if let Some(path) = written {
        return quote!(#path);
    }
    if let Some(facade) = dependency("marmota") {
        return quote!(::#facade::jobs);
    }
    match dependency("marmota-jobs") {
        Some(jobs) => quote!(::#jobs),
        None => quote!(::marmota::jobs),
    }
}

/// Returns the name under which the crate being compiled knows a package. A crate knows itself by
/// its own name (`extern crate self as …`), which its examples and doc tests share.
///
/// It reads the `Cargo.toml` of that crate (`CARGO_MANIFEST_DIR`); `None` if the package is not a
/// dependency, or if there is no such file.
fn dependency(package: &str) -> Option<Ident> {
    let name = match crate_name(package).ok()? {
        FoundCrate::Name(name) => name,
        FoundCrate::Itself => package.replace('-', "_"),
    };
    Some(Ident::new(&name, Span::call_site()))
}
