//! Messages to the server, appended to a buffer.

/// The protocol's version, 3.0.
const VERSION: i32 = 3 << 16;
/// Requests TLS in place of a version.
const TLS: i32 = 80_877_103;
/// Requests cancellation in place of a version.
const CANCEL: i32 = 80_877_102;

/// Appends a message: its tag, its length, and the output of `body`.
fn message(out: &mut Vec<u8>, tag: u8, body: impl FnOnce(&mut Vec<u8>)) {
    out.push(tag);
    sized(out, body);
}

/// Appends the output of `body` with its length before it, which includes itself.
fn sized(out: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend([0; 4]);
    body(out);
    let length = (out.len() - start) as i32;
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
}

fn text(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
    out.push(0);
}

/// Appends the name of a prepared statement; empty for the unnamed one.
fn name(out: &mut Vec<u8>, name: &[u8]) {
    out.extend_from_slice(name);
    out.push(0);
}

/// Requests TLS; the server answers with one byte.
pub fn tls_request(out: &mut Vec<u8>) {
    sized(out, |out| out.extend(TLS.to_be_bytes()));
}

/// The startup message: the user, the database and the settings.
pub fn startup<'a>(out: &mut Vec<u8>, settings: impl IntoIterator<Item = (&'a str, &'a str)>) {
    sized(out, |out| {
        out.extend(VERSION.to_be_bytes());
        for (key, value) in settings {
            text(out, key);
            text(out, value);
        }
        out.push(0);
    });
}

/// Cancels the current statement of another connection.
pub fn cancel_request(out: &mut Vec<u8>, process: i32, secret: &[u8]) {
    sized(out, |out| {
        out.extend(CANCEL.to_be_bytes());
        out.extend(process.to_be_bytes());
        out.extend_from_slice(secret);
    });
}

/// A password, in plain text or hashed.
pub fn password(out: &mut Vec<u8>, password: &[u8]) {
    message(out, b'p', |out| {
        out.extend_from_slice(password);
        out.push(0);
    });
}

/// Starts SASL with a mechanism and its first message.
pub fn sasl_initial(out: &mut Vec<u8>, mechanism: &str, first: &[u8]) {
    message(out, b'p', |out| {
        text(out, mechanism);
        out.extend((first.len() as i32).to_be_bytes());
        out.extend_from_slice(first);
    });
}

/// Continues SASL.
pub fn sasl_response(out: &mut Vec<u8>, response: &[u8]) {
    message(out, b'p', |out| out.extend_from_slice(response));
}

/// Prepares a statement with this name, or the unnamed one for an empty name; its parameters have
/// these types.
pub fn parse(out: &mut Vec<u8>, statement: &[u8], sql: &str, types: &[u32]) {
    message(out, b'P', |out| {
        name(out, statement);
        text(out, sql);
        out.extend((types.len() as u16).to_be_bytes());
        types.iter().for_each(|oid| out.extend(oid.to_be_bytes()));
    });
}

/// Binds a prepared statement to its parameters, as [`super::value::put`] writes them with their
/// lengths; results are requested in binary.
#[inline]
pub fn bind(out: &mut Vec<u8>, statement: &[u8], count: u16, parameters: &[u8]) {
    message(out, b'B', |out| {
        out.push(0);
        name(out, statement);
        out.extend([0, 1, 0, 1]);
        out.extend(count.to_be_bytes());
        out.extend_from_slice(parameters);
        out.extend([0, 1, 0, 1]);
    });
}

/// Like [`bind`] for a statement whose parameters and results are not all binary: 1 for binary, 0
/// for text.
pub fn bind_mixed(
    out: &mut Vec<u8>,
    statement: &[u8],
    (formats, results): (&[u8], &[u8]),
    parameters: &[u8],
) {
    let put = |out: &mut Vec<u8>, formats: &[u8]| {
        out.extend((formats.len() as u16).to_be_bytes());
        formats.iter().for_each(|&format| out.extend([0, format]));
    };
    message(out, b'B', |out| {
        out.push(0);
        name(out, statement);
        put(out, formats);
        out.extend((formats.len() as u16).to_be_bytes());
        out.extend_from_slice(parameters);
        put(out, results);
    });
}

/// Requests the description of a prepared statement's parameters and rows.
pub fn describe(out: &mut Vec<u8>, statement: &[u8]) {
    message(out, b'D', |out| {
        out.push(b'S');
        name(out, statement);
    });
}

/// Runs the last bound statement to its end.
#[inline]
pub fn execute(out: &mut Vec<u8>) {
    out.extend_from_slice(&[b'E', 0, 0, 0, 9, 0, 0, 0, 0, 0]);
}

/// Ends a group: a failure before it skips everything up to here.
#[inline]
pub fn sync(out: &mut Vec<u8>) {
    out.extend_from_slice(&[b'S', 0, 0, 0, 4]);
}

/// Closes a prepared statement.
pub fn close(out: &mut Vec<u8>, statement: &[u8]) {
    message(out, b'C', |out| {
        out.push(b'S');
        name(out, statement);
    });
}

/// Runs statements given as text.
pub fn query(out: &mut Vec<u8>, sql: &str) {
    message(out, b'Q', |out| text(out, sql));
}

/// A piece of the data of COPY.
pub fn copy_data(out: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>)) {
    message(out, b'd', body);
}

/// The end of the data of COPY.
pub fn copy_done(out: &mut Vec<u8>) {
    out.extend_from_slice(&[b'c', 0, 0, 0, 4]);
}

/// Terminates the connection.
pub fn terminate(out: &mut Vec<u8>) {
    out.extend_from_slice(&[b'X', 0, 0, 0, 4]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_counts_itself_and_not_the_tag() {
        let mut out = Vec::new();
        query(&mut out, "x");
        assert_eq!(out, [b'Q', 0, 0, 0, 6, b'x', 0]);
        out.clear();
        close(&mut out, b"s120");
        assert_eq!(out, [b'C', 0, 0, 0, 10, b'S', b's', b'1', b'2', b'0', 0]);
        out.clear();
        bind(&mut out, b"s0", 1, &[255; 4]);
        assert_eq!(&out[..8], [b'B', 0, 0, 0, 22, 0, b's', b'0']);
        assert_eq!(out.len(), 23);
        out.clear();
        bind_mixed(&mut out, b"s0", (&[1], &[0, 1]), &[255; 4]);
        assert_eq!(out[8..], [0, 0, 1, 0, 1, 0, 1, 255, 255, 255, 255, 0, 2, 0, 0, 0, 1]);
        out.clear();
        tls_request(&mut out);
        assert_eq!(out, [0, 0, 0, 8, 4, 210, 22, 47]);
    }
}
