//! The endpoints of the routes that only file fields have, and which requests are for a file.

use std::collections::HashSet;

use marmota_http::{Endpoint, Method, Request, Response, Router};
use marmota_model::Kind;

use crate::endpoints::{Endpoints, with_table};
use crate::files::field::FileField;
use crate::files::routes::begin;
use crate::files::{resumable, signed_url};
use crate::request::accept::Offer;
use crate::request::state::ApiSource;

impl Endpoints {
    /// Returns whether a request's path names a file field. Its body is read while it arrives.
    pub(crate) fn names_file(&self) -> impl Fn(&Request) -> bool + Send + Sync + 'static {
        let mut fields = HashSet::new();
        if let ApiSource::One(api) = &self.source
            && api.files.is_some()
        {
            for table in api.store.registry().tables() {
                for field in table.fields() {
                    if matches!(field.kind, Kind::File { .. }) {
                        fields.insert((table.name().to_owned(), field.name.to_string()));
                    }
                }
            }
        }
        move |request| {
            if fields.is_empty() {
                return false;
            }
            let named = |name| request.param(name).unwrap_or_default().into_owned();
            fields.contains(&(named("table"), named("field")))
        }
    }

    /// Returns true if the API has a storage of files.
    pub(crate) fn has_files(&self) -> bool {
        matches!(&self.source, ApiSource::One(api) if api.files.is_some())
    }

    /// Adds the routes that only files have.
    pub(crate) fn add_files(&self, router: Router, prefix: &str) -> Router {
        if !self.has_files() {
            return router;
        }
        let at = |path: &str| format!("{prefix}/{{table}}/{{id}}/{{field}}{path}");
        router
            .on(Method::Delete, &at(""), self.delete_part())
            .on(Method::Post, &at("/signed-url"), self.file(signed_url::answer))
            .any(&at("/signed-url"), Self::others("POST, OPTIONS"))
            .on(Method::Post, &at("/uploads"), self.file(resumable::create))
            .on(Method::Options, &at("/uploads"), resumable::options())
            .any(&at("/uploads"), Self::others("POST, OPTIONS"))
            .on(Method::Get, &at("/uploads/{upload}"), self.file(resumable::offset))
            .on(
                Method::Patch,
                &at("/uploads/{upload}"),
                self.file(resumable::append).streamed(u64::MAX),
            )
            .on(Method::Delete, &at("/uploads/{upload}"), self.file(resumable::remove))
            .on(Method::Options, &at("/uploads/{upload}"), resumable::options())
            .any(&at("/uploads/{upload}"), Self::others("HEAD, PATCH, DELETE, OPTIONS"))
    }

    /// Returns the endpoint of a route below a file field.
    fn file<T>(&self, answer: fn(FileField, Request) -> T) -> Endpoint
    where
        T: Future<Output = Response> + 'static,
    {
        self.endpoint(Offer::Any, move |call, out| {
            with_table(call, out, |context, out| begin(context, out, answer))
        })
    }
}
