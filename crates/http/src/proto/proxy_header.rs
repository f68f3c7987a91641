//! The PROXY protocol of HAProxy, versions 1 (a line of text) and 2 (binary): the header by which a
//! load balancer names the client before anything else on a connection. A function on bytes.
//!
//! The format is that of `doc/proxy-protocol.txt` in HAProxy's sources. It is read only from peers
//! that [`Server::proxy_protocol`](crate::Server::proxy_protocol) trusts; from others it would be
//! an invalid request. [`crate::socket::socket_codec`] collects the bytes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The maximum length of a line of version 1, by the specification.
const LINE_BYTES_MAX: usize = 107;
/// The first bytes of version 2, which no request of HTTP begins with.
const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
/// The part of version 2 with a fixed length: signature, version and command, family, length.
const FIXED_BYTES: usize = 16;
/// The maximum length of a header of version 2. Balancers add some hundred bytes to the addresses.
const BYTES_MAX: usize = 4 * 1024;

/// A complete header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProxyHeader {
    /// The length of the header.
    pub(crate) bytes: usize,
    /// The client; `None` if the proxy connects for itself, as for a health check, or does not know
    /// it.
    pub(crate) source: Option<SocketAddr>,
}

/// The bytes are not a header of this protocol. The connection is closed without an answer, because
/// nothing about its other end is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InvalidProxyHeader;

/// Parses the header at the start of `come`, the bytes that have arrived. Returns `None` if more
/// are needed.
pub(crate) fn parse(come: &[u8]) -> Result<Option<ProxyHeader>, InvalidProxyHeader> {
    match come {
        [] => Ok(None),
        [b'P', ..] => line(come),
        _ => binary(come),
    }
}

/// Parses version 1: `PROXY TCP4 192.0.2.7 10.0.0.1 12345 80` and CR LF.
fn line(come: &[u8]) -> Result<Option<ProxyHeader>, InvalidProxyHeader> {
    let start = b"PROXY ";
    let compared = come.len().min(start.len());
    if come[..compared] != start[..compared] {
        return Err(InvalidProxyHeader);
    }
    let Some(end) = come.iter().take(LINE_BYTES_MAX).position(|&byte| byte == b'\n') else {
        return if come.len() < LINE_BYTES_MAX { Ok(None) } else { Err(InvalidProxyHeader) };
    };
    let line = come[start.len()..end].strip_suffix(b"\r").ok_or(InvalidProxyHeader)?;
    let line = std::str::from_utf8(line).map_err(|_| InvalidProxyHeader)?;
    let mut words = line.split(' ');
    let family = words.next();
    let source = match family {
        Some("UNKNOWN") => None,
        Some("TCP4" | "TCP6") => {
            let mut address = || words.next()?.parse::<IpAddr>().ok();
            let (from, to) =
                (address().ok_or(InvalidProxyHeader)?, address().ok_or(InvalidProxyHeader)?);
            let mut port = || words.next()?.parse::<u16>().ok();
            let (from_port, _) =
                (port().ok_or(InvalidProxyHeader)?, port().ok_or(InvalidProxyHeader)?);
            let is_right = from.is_ipv4() == (family == Some("TCP4"));
            if words.next().is_some() || !is_right || from.is_ipv4() != to.is_ipv4() {
                return Err(InvalidProxyHeader);
            }
            Some(SocketAddr::new(from, from_port))
        }
        _ => return Err(InvalidProxyHeader),
    };
    Ok(Some(ProxyHeader { bytes: end + 1, source }))
}

/// Parses version 2. Additions after the addresses (TLVs) are skipped.
fn binary(come: &[u8]) -> Result<Option<ProxyHeader>, InvalidProxyHeader> {
    let compared = come.len().min(SIGNATURE.len());
    if come[..compared] != SIGNATURE[..compared] {
        return Err(InvalidProxyHeader);
    }
    let Some(fixed) = come.first_chunk::<FIXED_BYTES>() else { return Ok(None) };
    let (kind, family) = (fixed[12], fixed[13]);
    let bytes = FIXED_BYTES + usize::from(u16::from_be_bytes([fixed[14], fixed[15]]));
    if kind >> 4 != 2 || bytes > BYTES_MAX {
        return Err(InvalidProxyHeader);
    }
    let Some(addresses) = come.get(FIXED_BYTES..bytes) else { return Ok(None) };
    let source = match (kind & 0xF, family) {
        // LOCAL: the proxy connects for itself, for a health check.
        (0, _) => None,
        (1, 0x11) => {
            let parts = addresses.first_chunk::<12>().ok_or(InvalidProxyHeader)?;
            let ip = Ipv4Addr::new(parts[0], parts[1], parts[2], parts[3]);
            Some((ip, u16::from_be_bytes([parts[8], parts[9]])).into())
        }
        (1, 0x21) => {
            let parts = addresses.first_chunk::<36>().ok_or(InvalidProxyHeader)?;
            let ip: [u8; 16] = *parts.first_chunk().ok_or(InvalidProxyHeader)?;
            Some((Ipv6Addr::from(ip), u16::from_be_bytes([parts[32], parts[33]])).into())
        }
        // Unspecified, datagrams, Unix sockets: the client is not known by an address.
        (1, _) => None,
        _ => return Err(InvalidProxyHeader),
    };
    Ok(Some(ProxyHeader { bytes, source }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v2(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
        let mut header = SIGNATURE.to_vec();
        header.extend_from_slice(&[0x20 | command, family]);
        header.extend_from_slice(&(rest.len() as u16).to_be_bytes());
        header.extend_from_slice(rest);
        header
    }

    #[test]
    fn headers_of_both_versions_are_read_however_they_are_cut() {
        let v4 = [192, 0, 2, 7, 10, 0, 0, 1, 0x30, 0x39, 0, 80];
        let mut v6 = [0; 36];
        (v6[15], v6[31], v6[33]) = (1, 2, 99);
        let with_more: Vec<u8> = v4.iter().chain(b"\x04\0\x01x").copied().collect();
        for (header, source) in [
            (b"PROXY TCP4 192.0.2.7 10.0.0.1 12345 80\r\n".to_vec(), Some("192.0.2.7:12345")),
            (b"PROXY TCP6 ::1 ::2 99 80\r\n".to_vec(), Some("[::1]:99")),
            (b"PROXY UNKNOWN\r\n".to_vec(), None),
            (b"PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n".to_vec(), None),
            (v2(1, 0x11, &v4), Some("192.0.2.7:12345")),
            (v2(1, 0x11, &with_more), Some("192.0.2.7:12345")),
            (v2(1, 0x21, &v6), Some("[::1]:99")),
            (v2(0, 0, &[]), None),
            (v2(1, 0x31, &[0; 216]), None),
        ] {
            let source = source.map(|text| text.parse().unwrap());
            let bytes = header.len();
            for cut in 0..bytes {
                assert_eq!(parse(&header[..cut]), Ok(None), "{}", header.escape_ascii());
            }
            let mut with_request = header;
            with_request.extend_from_slice(b"GET / HTTP/1.1\r\n");
            assert_eq!(parse(&with_request), Ok(Some(ProxyHeader { bytes, source })));
        }
    }

    #[test]
    fn all_else_is_refused() {
        let long = [b"PROXY UNKNOWN ".as_slice(), &[b'x'; 120]].concat();
        for bytes in [
            b"GET / HTTP/1.1\r\n".to_vec(),
            b"POST".to_vec(),
            b"PROXY TCP4 ::1 ::2 1 2\r\n".to_vec(),
            b"PROXY TCP4 192.0.2.7 10.0.0.1 99999 80\r\n".to_vec(),
            b"PROXY TCP4 192.0.2.7 10.0.0.1 1\r\n".to_vec(),
            b"PROXY TCP4 192.0.2.7 10.0.0.1 1 2 3\r\n".to_vec(),
            b"PROXY TCP4 192.0.2.7 10.0.0.1 1 2\n".to_vec(),
            b"PROXY UDP4 192.0.2.7 10.0.0.1 1 2\r\n".to_vec(),
            b"\x16\x03\x01".to_vec(),
            v2(1, 0x11, &[0; 11]),
            v2(2, 0x11, &[0; 12]),
            v2(1, 0x11, &[0; 5_000]),
            long,
        ] {
            assert_eq!(parse(&bytes), Err(InvalidProxyHeader), "{}", bytes.escape_ascii());
        }
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_decided_on(bytes: Vec<u8>, version: bool) {
            let start: &[u8] = if version { SIGNATURE } else { b"PROXY TCP4 " };
            let _ = parse(&[start, &bytes].concat());
            let _ = parse(&bytes);
        }
    }
}
