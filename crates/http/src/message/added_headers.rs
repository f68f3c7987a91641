//! Headers that layers add to a response that is not there yet.

use std::borrow::Cow;

use crate::proto::header::{HeaderError, check_header};

/// Headers that a layer adds to an answer it does not make.
#[derive(Debug, Default)]
pub struct AddedHeaders(Vec<(Cow<'static, str>, Cow<'static, [u8]>)>);

impl AddedHeaders {
    /// Adds one.
    ///
    /// # Errors
    /// As [`crate::Response::with_header`].
    pub fn add(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        value: impl Into<Cow<'static, str>>,
    ) -> Result<(), HeaderError> {
        let (name, value) = (name.into(), value.into());
        check_header(&name, value.as_bytes())?;
        self.put(name, value);
        Ok(())
    }

    /// Adds one that is known to be fit for a head.
    pub(crate) fn put(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        value: impl Into<Cow<'static, str>>,
    ) {
        let value = match value.into() {
            Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
            Cow::Owned(text) => Cow::Owned(text.into_bytes()),
        };
        self.0.push((name.into(), value));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.0.iter().map(|(name, value)| (&**name, &**value))
    }

    /// Takes those from number `from` on.
    pub(crate) fn split_off(&mut self, from: usize) -> Self {
        Self(self.0.split_off(from.min(self.0.len())))
    }

    pub(crate) fn into_inner(self) -> Vec<(Cow<'static, str>, Cow<'static, [u8]>)> {
        self.0
    }
}
