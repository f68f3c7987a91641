//! The lines of a stream of items: written one by one, and found in pieces with any boundaries.

/// Appends an item.
pub(crate) fn put(lines: &mut Vec<u8>, json: &[u8]) {
    // JSON has no raw newline in strings; elsewhere a newline is whitespace.
    lines.extend(json.iter().map(|&byte| if byte == b'\n' { b' ' } else { byte }));
    lines.push(b'\n');
}

/// Splits pieces with arbitrary boundaries into lines.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    bytes: Vec<u8>,
    /// The number of bytes already returned.
    done: usize,
    /// The offset up to which no newline was found.
    seen: usize,
}

impl Lines {
    pub(crate) fn push(&mut self, piece: &[u8]) {
        self.bytes.drain(..self.done);
        self.seen -= self.done;
        self.done = 0;
        self.bytes.extend_from_slice(piece);
    }

    /// Searches for the next newline; returns true if it was found.
    pub(crate) fn has_line(&mut self) -> bool {
        let found = self.bytes[self.seen..].iter().position(|&byte| byte == b'\n');
        self.seen = found.map_or(self.bytes.len(), |length| self.seen + length);
        found.is_some()
    }

    /// Returns the next line, which was found, without its newline.
    pub(crate) fn next(&mut self) -> &[u8] {
        let (start, end) = (self.done, self.seen);
        self.done = end + 1;
        self.seen = self.done;
        &self.bytes[start..end]
    }

    /// Returns the number of bytes of the incomplete line.
    pub(crate) fn begun(&self) -> usize {
        self.bytes.len() - self.done
    }

    /// Returns the bytes after the last newline.
    pub(crate) fn last(&mut self) -> &[u8] {
        let start = self.done;
        (self.done, self.seen) = (self.bytes.len(), self.bytes.len());
        &self.bytes[start..]
    }
}
