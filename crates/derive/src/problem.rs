//! What is wrong with a definition: gathered, so that one build shows it all.

use std::fmt::Display;

use proc_macro2::{Span, TokenStream};
use quote::ToTokens;

/// The errors found so far.
#[derive(Default)]
pub(crate) struct Problems(Option<syn::Error>);

impl Problems {
    /// An error that points at `tokens`.
    pub(crate) fn at(&mut self, tokens: impl ToTokens, message: impl Display) {
        self.add(syn::Error::new_spanned(tokens, message));
    }

    /// An error that points at `span`.
    pub(crate) fn at_span(&mut self, span: Span, message: impl Display) {
        self.add(syn::Error::new(span, message));
    }

    /// An error that a parser made.
    pub(crate) fn add(&mut self, error: syn::Error) {
        match &mut self.0 {
            Some(all) => all.combine(error),
            none => *none = Some(error),
        }
    }

    /// The value of a result; its error is kept.
    pub(crate) fn keep<T>(&mut self, result: syn::Result<T>) -> Option<T> {
        result.map_err(|error| self.add(error)).ok()
    }

    /// `code` if nothing is wrong, otherwise `compile_error!` for each error.
    pub(crate) fn or_code(self, code: impl FnOnce() -> TokenStream) -> TokenStream {
        match self.0 {
            Some(all) => all.into_compile_error(),
            None => code(),
        }
    }
}
