//! SQL as text, run to its end while the thread blocks: for migrations, where latency does not
//! matter.

use std::task::Poll;
use std::time::Duration;

use marmota_model::Error;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{Connection, Loss};
use crate::fault::{self, Failure};
use crate::options::PostgresOptions;
use crate::wire::backend::{BackendMessage, Row};

/// The reason why SQL failed.
#[derive(Debug)]
pub(crate) enum QueryError {
    Refused(Box<Failure>),
    Lost(Loss),
}

impl QueryError {
    pub(crate) fn into_error(self, options: &PostgresOptions) -> Error {
        match self {
            Self::Refused(failure) => fault::of(&failure),
            Self::Lost(loss) => fault::lost(&loss.0, options, true),
        }
    }
}

impl Connection {
    /// Runs SQL, and calls `take` with each row, as texts.
    pub(crate) fn query(
        &mut self,
        sql: &str,
        mut take: impl FnMut(&Texts),
    ) -> Result<(), QueryError> {
        let number = self.submit(|sending| sending.query(sql));
        let mut failure = None;
        let mut hear = |message: BackendMessage<'_>| match message {
            BackendMessage::DataRow(row) => take(&Texts::of(row)),
            BackendMessage::ErrorResponse(notice) => failure = Some(Box::new(Failure::new(notice))),
            _ => {}
        };
        loop {
            match self.answer(number, &mut hear) {
                Poll::Ready(Ok(_)) => break,
                Poll::Ready(Err(loss)) => return Err(QueryError::Lost(loss)),
                Poll::Pending => self.sleep(Duration::from_secs(1)),
            }
        }
        failure.map_or(Ok(()), |failure| Err(QueryError::Refused(failure)))
    }

    /// Waits until data is received, or for this time.
    pub(crate) fn sleep(&mut self, time: Duration) {
        self.flush();
        let stream = self.stream();
        let timeout = Timespec::try_from(time).ok();
        let mut on = [PollFd::new(&stream, PollFlags::IN)];
        // If it is interrupted or fails, the caller checks again.
        let _ = poll(&mut on, timeout.as_ref());
    }
}

/// A row of texts.
#[derive(Debug)]
pub(crate) struct Texts(Vec<Option<String>>);

impl Texts {
    pub(crate) fn of(mut row: Row<'_>) -> Self {
        let mut texts = Vec::with_capacity(row.len());
        while let Ok(column) = row.next_column() {
            texts.push(column.map(|bytes| String::from_utf8_lossy(bytes).into_owned()));
        }
        Self(texts)
    }

    /// Returns the text in a column; empty for NULL.
    pub(crate) fn text(&self, at: usize) -> &str {
        self.0.get(at).and_then(Option::as_deref).unwrap_or_default()
    }

    /// Returns true for a boolean that is true.
    pub(crate) fn is(&self, at: usize) -> bool {
        self.text(at) == "t"
    }

    pub(crate) fn is_null(&self, at: usize) -> bool {
        self.0.get(at).is_none_or(Option::is_none)
    }
}
