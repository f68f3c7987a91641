//! The errors of a definition, collected so that one build reports all of them.
//!
//! A parser of `syn` stops at its first error. The macros therefore parse in small parts, and add
//! the errors of all parts here.

use std::fmt::Display;

use proc_macro2::{Span, TokenStream};
use quote::ToTokens;

/// The errors found so far.
#[derive(Default)]
pub(crate) struct Problems(Option<syn::Error>);

impl Problems {
    /// Adds an error that points at `tokens`.
    pub(crate) fn at(&mut self, tokens: impl ToTokens, message: impl Display) {
        self.add(syn::Error::new_spanned(tokens, message));
    }

    /// Adds an error that points at `span`.
    pub(crate) fn at_span(&mut self, span: Span, message: impl Display) {
        self.add(syn::Error::new(span, message));
    }

    /// Adds an error of a parser.
    pub(crate) fn add(&mut self, error: syn::Error) {
        match &mut self.0 {
            Some(all) => all.combine(error),
            none => *none = Some(error),
        }
    }

    /// Returns the value of a result; records its error.
    pub(crate) fn keep<T>(&mut self, result: syn::Result<T>) -> Option<T> {
        result.map_err(|error| self.add(error)).ok()
    }

    /// Returns `code` if there are no errors, otherwise `compile_error!` for each error.
    pub(crate) fn or_code(self, code: impl FnOnce() -> TokenStream) -> TokenStream {
        match self.0 {
            Some(all) => all.into_compile_error(),
            None => code(),
        }
    }
}
