//! `#[method]`: makes a function a service.
//!
//! A function is a service with one method, whose name is that of the service. The generated type
//! has the function's name: types and functions are in different namespaces, so both can be used.

use proc_macro2::{Ident, Span, TokenStream};
use quote::quote;
use syn::ItemFn;

use crate::problem::Problems;
use crate::service::{Given, Method};

/// Returns the code for a function, or its errors.
pub(crate) fn expand(attribute: TokenStream, item: &ItemFn) -> TokenStream {
    let mut problems = Problems::default();
    let given = Given::read(attribute, &mut problems);
    if let Some(receiver) = item.sig.receiver() {
        problems.at(receiver, "a single method cannot take `self`; use `#[service]` on a trait");
    }
    let method = Method::read(&item.sig, &mut problems);
    problems.or_code(|| method.map(|method| code(&given, item, &method)).unwrap_or_default())
}

/// Generates the function, its contract, and the call through a client.
fn code(given: &Given, item: &ItemFn, method: &Method) -> TokenStream {
    let path = given.path();
    let (vis, ident, result) = (&item.vis, &method.ident, &method.result);
    let called = given.name_or(method.name());
    let (described, encoded) = (method.described(&path), method.encoded(&path));
    let source = Ident::new("arguments", Span::mixed_site());
    let client = Ident::new("client", Span::mixed_site());
    let decoded = method.decoded(&source);
    let idents = method.parameters.iter().map(|(ident, _)| ident);
    let parameters = method.parameters.iter().map(|(ident, ty)| quote!(#ident: #ty));
    let awaited = item.sig.asyncness.map(|_| quote!(.await));
    let doc = format!("The method `{called}`, to be added to services.");
    quote! {
        #item

        #[doc = #doc]
        #[allow(non_camel_case_types, reason = "it is called as the function is")]
        #[derive(Clone, Copy, Debug)]
        #vis struct #ident {}

        impl #path::generated::Described for #ident {
            const CONTRACT: &'static #path::Contract =
                &#path::Contract { name: #called, methods: &[#described] };
        }

        impl #path::generated::Dispatch<()> for #ident {
            fn prepare(
                _: usize,
                mut #source: #path::generated::Arguments<'_>,
            ) -> ::core::result::Result<#path::generated::Prepared<()>, #path::generated::Error> {
                #decoded
                ::core::result::Result::Ok(#path::generated::prepared(
                    move |_: ::std::sync::Arc<()>| async move { #ident(#(#idents),*)#awaited },
                ))
            }
        }

        #[allow(dead_code, reason = "a program may have one side only")]
        impl #ident {
            /// Calls the function through a client.
            ///
            /// # Errors
            /// Those of the function, and those of the transport.
            #vis async fn at(
                #client: &#path::Client #(, #parameters)*
            ) -> ::core::result::Result<#result, #path::generated::Error> {
                let stub = #path::generated::Stub::new::<Self>(#client).await?;
                stub.call(0, #encoded).await
            }
        }
    }
}
