//! What is wrong in an application file, and where.

/// What is wrong in a document, and where: the keys from the root.
#[derive(Debug, PartialEq)]
pub(crate) struct Fault {
    pub(crate) path: Vec<String>,
    pub(crate) message: String,
}

impl Fault {
    pub(crate) fn new<'a>(
        path: impl IntoIterator<Item = &'a str>,
        message: impl Into<String>,
    ) -> Self {
        Self { path: path.into_iter().map(str::to_owned).collect(), message: message.into() }
    }
}
