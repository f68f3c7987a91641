//! TLS for clients: the trusted CAs, and a socket that encrypts. All of the cryptography is that of
//! rustls with ring, as in the server.

use std::cell::RefCell;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::task::Context;
use std::time::Duration;

use marmota_model::{Error, ErrorKind, Result};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{CertificateError, ClientConfig, ClientConnection, RootCertStore};

use super::reach::Stream;
use super::wire::{Source, Wire};

/// The maximum number of bytes that wait to be encrypted and sent.
const UNSENT_BYTES_MAX: usize = 256 * 1024;
const READ_BYTES: usize = 16 * 1024;

/// Returns a configuration that trusts the CAs in a PEM file, or the system's.
fn trusting(ca_file: Option<&Path>) -> Result<Arc<ClientConfig>> {
    // The system has many certificates, so they are read once.
    static SYSTEM: OnceLock<Arc<ClientConfig>> = OnceLock::new();
    if let (None, Some(known)) = (ca_file, SYSTEM.get()) {
        return Ok(Arc::clone(known));
    }
    let mut roots = RootCertStore::empty();
    match ca_file {
        Some(path) => {
            let refused = |error: &dyn std::fmt::Display| {
                let message = format!(
                    "the CA file {} cannot be used: {error}; it has certificates as PEM",
                    path.display()
                );
                Error::new(ErrorKind::Invalid, message)
            };
            for certificate in CertificateDer::pem_file_iter(path).map_err(|it| refused(&it))? {
                let added = certificate.map_err(|it| refused(&it))?;
                roots.add(added).map_err(|it| refused(&it))?;
            }
            if roots.is_empty() {
                return Err(refused(&"no certificate is in it"));
            }
        }
        None => {
            let found = rustls_native_certs::load_native_certs();
            for error in &found.errors {
                log::warn!("certificates of the system: {error}");
            }
            roots.add_parsable_certificates(found.certs);
            if roots.is_empty() {
                let message = "this system names no ca_file for TLS: install them (the package \
                               ca-certificates), or name a file of ca_file";
                return Err(Error::new(ErrorKind::Invalid, message));
            }
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::new(ErrorKind::Bug, format!("TLS cannot begin: {error}")))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let config = Arc::new(config);
    Ok(match ca_file {
        Some(_) => config,
        None => Arc::clone(SYSTEM.get_or_init(|| config)),
    })
}

/// A TLS socket that blocks as the inner socket does.
pub(super) struct Secured {
    socket: Arc<TcpStream>,
    connection: RefCell<ClientConnection>,
}

impl Secured {
    /// Creates the socket. The handshake runs at the first byte that is written or read.
    pub(super) fn new(socket: TcpStream, host: &str, ca_file: Option<&Path>) -> Result<Self> {
        let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
        let name = name.trim_start_matches('[').trim_end_matches(']').to_owned();
        let invalid = |error: &dyn std::fmt::Display| {
            let message = format!("{host} is no name that a certificate could be for: {error}");
            Error::new(ErrorKind::Invalid, message)
        };
        let name = ServerName::try_from(name).map_err(|error| invalid(&error))?;
        let connection = ClientConnection::new(trusting(ca_file)?, name);
        let mut connection = connection.map_err(|error| invalid(&error))?;
        connection.set_buffer_limit(Some(UNSENT_BYTES_MAX));
        Ok(Self { socket: Arc::new(socket), connection: RefCell::new(connection) })
    }

    /// Returns the same socket in non-blocking mode.
    pub(super) fn into_wire(self) -> io::Result<SecureSocket> {
        self.socket.set_nonblocking(true)?;
        let source: Source = Arc::<TcpStream>::clone(&self.socket);
        Ok(SecureSocket { source, socket: self.socket, connection: self.connection.into_inner() })
    }
}

impl AsFd for Secured {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Stream for Secured {
    fn time_out(&self, after: Duration) -> io::Result<()> {
        self.socket.time_out(after)
    }
}

impl Read for &Secured {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let mut connection = self.connection.borrow_mut();
        rustls::Stream::new(&mut *connection, &mut &*self.socket).read(room)
    }
}

impl Write for &Secured {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut connection = self.connection.borrow_mut();
        rustls::Stream::new(&mut *connection, &mut &*self.socket).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        let mut connection = self.connection.borrow_mut();
        rustls::Stream::new(&mut *connection, &mut &*self.socket).flush()
    }
}

/// A non-blocking TLS socket.
pub(crate) struct SecureSocket {
    source: Source,
    socket: Arc<TcpStream>,
    connection: ClientConnection,
}

impl SecureSocket {
    /// Returns the source to sleep on.
    pub(super) const fn of_socket(&self) -> &Source {
        &self.source
    }

    /// Reads and decrypts more bytes; returns false if none are available.
    fn take(&mut self) -> io::Result<bool> {
        match self.connection.read_tls(&mut &*self.socket) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) => {
                self.connection.process_new_packets().map_err(io::Error::other)?;
                Ok(true)
            }
            Err(error) if waits(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

impl Wire for SecureSocket {
    fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut sent = 0;
        while sent < bytes.len() {
            let taken = self.connection.writer().write(&bytes[sent..])?;
            sent += taken;
            if !Wire::flush(self)? || taken == 0 {
                break;
            }
        }
        Ok(sent)
    }

    fn flush(&mut self) -> io::Result<bool> {
        while self.connection.wants_write() {
            match self.connection.write_tls(&mut &*self.socket) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(error) if waits(&error) => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    fn receive(&mut self, inbox: &mut Vec<u8>, _: &mut Context<'_>) -> io::Result<usize> {
        let before = inbox.len();
        let mut piece = [0; READ_BYTES];
        loop {
            match self.read(&mut piece) {
                Ok(0) => break,
                Ok(count) => inbox.extend_from_slice(&piece[..count]),
                Err(error) if waits(&error) => break,
                // Bytes received before the end are returned first; the end is reported again.
                Err(_) if inbox.len() > before => break,
                Err(error) => return Err(error),
            }
        }
        // The server may have requested a key update, which is answered.
        Wire::flush(self)?;
        Ok(inbox.len() - before)
    }

    fn source(&self) -> Option<&Source> {
        Some(&self.source)
    }
}

/// Used by the WebSocket.
impl Read for SecureSocket {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.connection.reader().read(room) {
                // The server has closed the TLS connection.
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return read,
            }
            if !self.take()? {
                return Err(io::ErrorKind::WouldBlock.into());
            }
        }
    }
}

impl Write for SecureSocket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = self.connection.writer().write(bytes)?;
        match Wire::flush(self)? {
            _ if taken > 0 || bytes.is_empty() => Ok(taken),
            true => self.connection.writer().write(bytes),
            false => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match Wire::flush(self)? {
            true => Ok(()),
            false => Err(io::ErrorKind::WouldBlock.into()),
        }
    }
}

fn waits(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// Returns the error for a failed handshake, if TLS caused it.
#[cold]
pub(super) fn fault(host: &str, error: &io::Error) -> Option<Error> {
    use rustls::Error::{InvalidCertificate, InvalidMessage};
    let error = error.get_ref()?.downcast_ref::<rustls::Error>()?;
    let why = match error {
        InvalidCertificate(fault) => certificate_fault(fault),
        InvalidMessage(_) => "it does not speak TLS: use http:// or ws://, or the port that does \
                              speak it"
            .to_owned(),
        other => format!("TLS failed: {other}"),
    };
    let message = format!("the server at {host} is not to be trusted: {why}");
    Some(Error::new(ErrorKind::Protocol, message))
}

fn certificate_fault(fault: &CertificateError) -> String {
    match fault {
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            let names = match fault {
                CertificateError::NotValidForNameContext { presented, .. } => presented.join(", "),
                _ => "others".to_owned(),
            };
            format!(
                "its certificate is for another name ({names}): use one of its names in the URL, or \
                 give it a certificate for this one"
            )
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "its certificate has expired: renew it, or set this machine's clock".to_owned()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "its certificate is not valid yet: set this machine's clock".to_owned()
        }
        // Also for a CA of the same name with another key.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "its certificate is not signed by an authority \
                                            that this client trusts: name the file of its authority \
                                            (`ca_file`, or the variable SSL_CERT_FILE)"
                .to_owned()
        }
        other => format!("its certificate cannot be used: {other}"),
    }
}
