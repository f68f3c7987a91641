//! A cache of the JSON of list pages.
//!
//! It is used only if the store has a cache, which knows the versions of its tables. The name of a
//! page consists of its table's version, the caller's view of the table and the request's target,
//! so that a write to the table changes the names of its pages, and a write to another table does
//! not. The name is also the page's entity tag: a client that has the page gets 304 before anything
//! is read.
//!
//! ```text
//! GET /api/person?visits=0
//! If-None-Match: "h3f9a2c51d07be684"
//!
//! HTTP/1.1 304 Not Modified
//! ETag: "h3f9a2c51d07be684"
//! ```
//!
//! A page passes through the cache in two steps. [`Pages::name`] computes the name before the rows
//! are read, and [`Pages::keep`] stores the page after them, if the table still has the version of
//! the name. A table has no version while a write is in progress, and another one afterwards, so a
//! page that was read during a write is never stored.
//!
//! The name is a hash of 64 bits. It is not a secret, and two targets may have the same one, so
//! [`Pages::get`] also compares the target and the view of a page.
//!
//! Pages of old versions are not removed. They are not found any more, and are evicted by newer
//! ones.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use marmota_http::Request;
use marmota_model::{FilterExpr, Table};
use marmota_store::Store;
use quick_cache::Weighter;
use quick_cache::sync::Cache;
use xxhash_rust::xxh3::Xxh3;

use crate::protocol::etag::Etag;

/// The maximum size of the cached pages of one API.
const BYTES_MAX: u64 = 16 << 20;
/// Larger pages would evict too many others.
const PAGE_BYTES_MAX: usize = 1 << 20;
/// The approximate size of a page in addition to its strings.
const PAGE_BYTES: usize = 128;

/// A cached page.
///
/// It is shared with the requests that are writing it, so that eviction does not wait for them.
#[derive(Debug)]
pub(crate) struct Page {
    /// Checked on lookup, because two targets or views may have the same tag.
    ///
    /// The path and query of the request.
    target: Box<str>,
    view: u64,
    /// The value of the `Link` header, if another page follows.
    pub(crate) link: Option<String>,
    /// The JSON of the page.
    pub(crate) body: Box<[u8]>,
}

/// The name of a page: its content and the version of its table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageName {
    version: u64,
    /// The identifier of the caller's view.
    view: u64,
    pub(crate) etag: Etag,
}

impl PageName {
    /// Returns the name of a page with this filter; `None` if the filter depends on rows of related
    /// tables, which the version of the table does not cover.
    pub(crate) fn filtered_by(self, filter: Option<&FilterExpr>) -> Option<Self> {
        (!filter.is_some_and(FilterExpr::has_relations)).then_some(self)
    }
}

/// The cached pages of an API.
#[derive(Debug)]
pub(crate) struct Pages {
    kept: Cache<u64, Arc<Page>, ByBytes>,
    /// Versions restart with each process, but tags must not repeat.
    salt: u64,
}

/// Weighs pages by their size in memory, so that the limit of the cache is one of bytes.
#[derive(Clone, Debug)]
struct ByBytes;

impl Weighter<u64, Arc<Page>> for ByBytes {
    fn weight(&self, _: &u64, page: &Arc<Page>) -> u64 {
        let link = page.link.as_ref().map_or(0, String::len);
        (PAGE_BYTES + page.target.len() + link + page.body.len()) as u64
    }
}

impl Default for Pages {
    fn default() -> Self {
        let pages_about = usize::try_from(BYTES_MAX).unwrap_or(usize::MAX) / 4096;
        Self {
            kept: Cache::with_weighter(pages_about, BYTES_MAX, ByBytes),
            salt: RandomState::new().hash_one("pages"),
        }
    }
}

impl Pages {
    /// Returns the name of the requested page; `None` if the version of the table is unknown, or
    /// does not determine what the caller sees: without a cache, or while a write is in
    /// progress.
    ///
    /// The view is that of the caller's rights on the table. Callers with the same view share their
    /// pages.
    pub(crate) fn name(&self, store: &Store, table: &Table, request: &Request) -> Option<PageName> {
        let version = store.table_version(table)?;
        let view = store.read_view_id(table)?;
        let mut hash = Xxh3::with_seed(self.salt);
        // Versions belong to one store, and a tenant's store may be reopened.
        hash.update(&store.number().to_le_bytes());
        hash.update(&version.to_le_bytes());
        hash.update(&view.to_le_bytes());
        hash.update(request.target().as_bytes());
        Some(PageName { version, view, etag: Etag::Hash(hash.digest()) })
    }

    /// Returns the page with this name, if it is cached, and if it is a page of the same target and
    /// view.
    pub(crate) fn get(&self, name: PageName, request: &Request) -> Option<Arc<Page>> {
        let Etag::Hash(hash) = name.etag else { return None };
        let kept = self.kept.get(&hash);
        kept.filter(|page| page.view == name.view && *page.target == *request.target())
    }

    /// Returns true if the table has the version of the name: nothing was written to it since.
    pub(crate) fn matches(&self, name: PageName, store: &Store, table: &Table) -> bool {
        matches!(name.etag, Etag::Hash(_)) && store.table_version(table) == Some(name.version)
    }

    /// Caches a page, unless its table was written to since the name was created; returns true if
    /// the page matches its name. Only then the response may have the name as its `ETag`.
    ///
    /// A page of more than 1 MiB is not cached, but it has a valid tag.
    pub(crate) fn keep(
        &self,
        name: PageName,
        (store, table): (&Store, &Table),
        request: &Request,
        link: Option<&str>,
        body: &[u8],
    ) -> bool {
        let Etag::Hash(hash) = name.etag else { return false };
        if !self.matches(name, store, table) {
            return false;
        }
        if body.len() <= PAGE_BYTES_MAX {
            let page = Page {
                target: request.target().into(),
                view: name.view,
                link: link.map(str::to_owned),
                body: body.into(),
            };
            self.kept.insert(hash, Arc::new(page));
        }
        true
    }
}
