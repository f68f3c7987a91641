//! Lists as streams: [`RowStream`] for asynchronous callers, [`RowIter`] for blocking ones. Both
//! read pages that continue after the last row, so they hold one page of rows and, between two
//! pages, nothing of the engine.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::vec;

use futures_core::Stream;
use marmota_model::{Model, Result};

use crate::runtime::block_on::park_until;
use crate::store::{Pending, Store};
use crate::verbs::action::{Action, poll_verb};
use crate::verbs::read::ListModels;

/// The rows of a page, by default.
const PAGE_ROWS: u64 = 256;

/// The rows of a list, one after the other ([`Action::stream`]). It is also a
/// [`Stream`](futures_core::Stream).
///
/// A stream that is dropped reads no further page, and cancels the one that it waits for.
#[must_use = "a stream reads nothing until it is awaited"]
pub struct RowStream<M: Model> {
    store: Store,
    verb: ListModels<M>,
    /// The page that is awaited.
    pending: Option<Pending>,
    /// The rest of the current page.
    page: vec::IntoIter<M>,
    page_rows: u64,
    /// The number of rows that further pages may have; `None` without a limit.
    remaining: Option<u64>,
    is_ended: bool,
}

impl<M: Model> Unpin for RowStream<M> {}

impl<M: Model> RowStream<M> {
    /// Sets the maximum number of rows of a page, at least 1. A stream holds one page. Default:
    /// 256.
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// # #[derive(Clone, Debug, Model)]
    /// # struct Photo { id: i64, pixels: String }
    /// # let store = Store::builder(Memory::new()).model::<Photo>().open()?;
    /// let large = store.list::<Photo>().stream().page_rows(4);
    /// # drop(large);
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    pub fn page_rows(mut self, rows: u64) -> Self {
        self.page_rows = rows.max(1);
        self
    }

    /// Returns the next row; `None` after the last one, and after an error.
    ///
    /// # Errors
    /// Those of a list.
    pub async fn next(&mut self) -> Result<Option<M>> {
        poll_fn(|context| self.poll_row(context)).await.transpose()
    }

    fn poll_row(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<M>>> {
        loop {
            if let Some(row) = self.page.next() {
                return Poll::Ready(Some(Ok(row)));
            }
            if self.is_ended || self.remaining == Some(0) {
                return Poll::Ready(None);
            }
            let rows = self.remaining.map_or(self.page_rows, |rest| rest.min(self.page_rows));
            self.verb.limit(rows);
            let Self { store, verb, pending, .. } = self;
            match ready!(poll_verb(store, verb, pending, None, context)) {
                Ok(page) => self.take(page, rows),
                Err(error) => {
                    self.is_ended = true;
                    return Poll::Ready(Some(Err(error)));
                }
            }
        }
    }

    /// Takes a page that may have this number of rows.
    fn take(&mut self, page: Vec<M>, rows: u64) {
        let read = page.len() as u64;
        self.is_ended = read < rows;
        self.remaining = self.remaining.map(|rest| rest.saturating_sub(read));
        if let Some(last) = page.last() {
            self.verb.continue_after(last);
        }
        self.page = page.into_iter();
    }
}

impl<M: Model> Stream for RowStream<M> {
    type Item = Result<M>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<M>>> {
        self.poll_row(context)
    }
}

impl<M: Model> Drop for RowStream<M> {
    fn drop(&mut self) {
        if let Some(pending) = self.pending.take() {
            self.store.cancel(pending);
        }
    }
}

/// The rows of a list as an iterator, which blocks the thread while it waits ([`Action::iter`]).
#[must_use = "an iterator reads nothing until it is used"]
pub struct RowIter<M: Model>(RowStream<M>);

impl<M: Model> RowIter<M> {
    /// Sets the maximum number of rows of a page, as [`RowStream::page_rows`] does.
    pub fn page_rows(self, rows: u64) -> Self {
        Self(self.0.page_rows(rows))
    }
}

impl<M: Model> Iterator for RowIter<M> {
    type Item = Result<M>;

    fn next(&mut self) -> Option<Result<M>> {
        park_until(|context| self.0.poll_row(context))
    }
}

impl<M: Model> Action<'_, ListModels<M>> {
    /// Reads the rows one after the other, without holding the whole list. The stream reads pages
    /// ([`RowStream::page_rows`]), each when its first row is requested.
    ///
    /// **Each page is a read of its own.** A row that exists during the whole stream, and whose
    /// fields in the order do not change, comes exactly once. Rows that are written meanwhile come
    /// or not. For one state of the table use a stream of a transaction ([`Store::begin`]). The
    /// stream holds no lock, snapshot or connection between pages, however long it takes.
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct City { id: i64, #[model(unique)] name: String, people: i64 }
    /// # let city = |name: &str, people| City { id: 0, name: name.to_owned(), people };
    /// # let store = Store::builder(Memory::new()).model::<City>().open()?;
    /// # store.insert_many(&[city("Bourges", 64_000), city("Lyon", 520_000)]).run()?;
    /// # marmota_store::action::block_on(async {
    /// let mut cities = store.list::<City>().filter(City::PEOPLE.gt(0)).stream();
    /// let mut people = 0;
    /// while let Some(city) = cities.next().await? {
    ///     people += city.people;
    /// }
    /// assert_eq!(people, 584_000);
    /// # Ok::<(), marmota_model::Error>(())
    /// # })?;
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    pub fn stream(self) -> RowStream<M> {
        let query = self.verb.query_of_rows();
        RowStream {
            store: self.store.clone(),
            remaining: query.limit,
            verb: ListModels::of(query),
            pending: None,
            page: Vec::new().into_iter(),
            page_rows: PAGE_ROWS,
            is_ended: false,
        }
    }

    /// [`Action::stream`] for blocking callers.
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct City { id: i64, #[model(unique)] name: String, people: i64 }
    /// # let city = |name: &str, people| City { id: 0, name: name.to_owned(), people };
    /// # let store = Store::builder(Memory::new()).model::<City>().open()?;
    /// # store.insert_many(&[city("Bourges", 64_000), city("Lyon", 520_000)]).run()?;
    /// for city in store.list::<City>().order(City::NAME.ascending()).iter() {
    ///     println!("{}", city?.name);
    /// }
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    pub fn iter(self) -> RowIter<M> {
        RowIter(self.stream())
    }
}
