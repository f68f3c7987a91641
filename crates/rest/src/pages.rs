//! Pages of lists, kept as the JSON that they were answered with.
//!
//! Only where the store has a cache, which knows its tables' versions: a page
//! is named by its table's version, by what its caller may see of the table
//! and by the request's target, so that a write to the table makes new names,
//! and one to another table does not. That name
//! is also the page's entity tag: a client that has the page is told so before
//! anything is read.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use marmota_http::Request;
use marmota_model::Table;
use marmota_store::Store;
use quick_cache::Weighter;
use quick_cache::sync::Cache;
use xxhash_rust::xxh3::Xxh3;

use crate::etag::Etag;

/// Bytes of the pages of one API.
const BYTES_MAX: u64 = 16 << 20;
/// Larger ones would push too many others out.
const PAGE_BYTES_MAX: usize = 1 << 20;
/// What a page takes beside its texts.
const PAGE_BYTES: usize = 128;

/// A page.
#[derive(Debug)]
pub(crate) struct Page {
    /// Two targets or views may have the same tag.
    target: Box<str>,
    view: u64,
    pub(crate) link: Option<String>,
    pub(crate) body: Box<[u8]>,
}

/// A page's name: what it would show, at which version of its table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageName {
    version: u64,
    /// What its caller may see.
    view: u64,
    pub(crate) etag: Etag,
}

/// The pages of an API.
#[derive(Debug)]
pub(crate) struct Pages {
    kept: Cache<u64, Arc<Page>, ByBytes>,
    /// Versions begin anew with each process, tags do not.
    salt: u64,
}

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
    /// The name of the page that a request asks for; none where the table's
    /// version is not known, or it is not for that to say what there is to be
    /// seen.
    pub(crate) fn name(&self, store: &Store, table: &Table, request: &Request) -> Option<PageName> {
        let version = store.table_version(table)?;
        let view = store.read_view_id(table)?;
        let mut hash = Xxh3::with_seed(self.salt);
        // Versions are a store's own, and a tenant's may be opened again.
        hash.update(&store.number().to_le_bytes());
        hash.update(&version.to_le_bytes());
        hash.update(&view.to_le_bytes());
        hash.update(request.target().as_bytes());
        Some(PageName { version, view, etag: Etag::Hash(hash.digest()) })
    }

    /// The page of this name, if it is kept.
    pub(crate) fn get(&self, name: PageName, request: &Request) -> Option<Arc<Page>> {
        let Etag::Hash(hash) = name.etag else { return None };
        let kept = self.kept.get(&hash);
        kept.filter(|page| page.view == name.view && *page.target == *request.target())
    }

    /// Keeps a page, unless its table was written to since it was named; gives
    /// whether it is of its name.
    pub(crate) fn keep(
        &self,
        name: PageName,
        (store, table): (&Store, &Table),
        request: &Request,
        link: Option<&str>,
        body: &[u8],
    ) -> bool {
        let Etag::Hash(hash) = name.etag else { return false };
        if store.table_version(table) != Some(name.version) {
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
