//! DOC
#![forbid(unsafe_code)]

mod attribute;
mod constant;
mod crate_path;
mod field;
mod model;
mod model_enum;
mod name;
mod problem;
mod shape;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

/// Makes a struct a model.
#[proc_macro_derive(Model, attributes(model))]
pub fn derive_model(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    model::derive(&input).into()
}

/// Makes an enum without data the type of a field.
#[proc_macro_derive(ModelEnum, attributes(model))]
pub fn derive_model_enum(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    model_enum::derive(&input).into()
}
