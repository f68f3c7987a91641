//! What an agent may do, at most.

/// The options of an [`AgentServer`](crate::AgentServer).
///
/// | option | default |
/// |---|---|
/// | writes | refused: there are no tools for them |
/// | rows of an answer | 100 |
/// | bytes of an answer | 256 KiB |
///
/// ```
/// let options = marmota_mcp::McpOptions::new().allow_writes(true).rows_max(20);
/// # let _ = options;
/// ```
#[derive(Clone, Copy, Debug)]
pub struct McpOptions {
    pub(crate) allows_writes: bool,
    pub(crate) rows_max: u64,
    pub(crate) bytes_max: usize,
}

impl McpOptions {
    /// Creates options with the defaults.
    #[must_use]
    pub const fn new() -> Self {
        Self { allows_writes: false, rows_max: 100, bytes_max: 256 * 1024 }
    }

    /// Sets whether there are tools that insert, update and delete rows. Default: false.
    #[must_use]
    pub const fn allow_writes(mut self, allows: bool) -> Self {
        self.allows_writes = allows;
        self
    }

    /// Sets the maximum number of rows of an answer, at least 1. Default: 100.
    #[must_use]
    pub const fn rows_max(mut self, rows: u64) -> Self {
        self.rows_max = if rows == 0 { 1 } else { rows };
        self
    }

    /// Sets the maximum size of an answer in bytes. A larger one is an error, whose text requests fewer
    /// rows or fields. Default: 256 KiB.
    #[must_use]
    pub const fn bytes_max(mut self, bytes: usize) -> Self {
        self.bytes_max = bytes;
        self
    }
}

impl Default for McpOptions {
    fn default() -> Self {
        Self::new()
    }
}
