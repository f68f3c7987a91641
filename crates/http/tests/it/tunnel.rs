//! A way from a plain socket to a server that speaks TLS, so that the tests of behaviour run over
//! TLS as they are: what one side ends or resets, the other side sees ended or reset.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, Error, SignatureScheme};

/// Takes any certificate, as nobody vouches for the server's.
#[derive(Debug)]
struct AnyServer;

impl ServerCertVerifier for AnyServer {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let provider = rustls::crypto::ring::default_provider();
        provider.signature_verification_algorithms.supported_schemes()
    }
}

/// A client that takes any certificate.
pub(crate) fn any_server() -> Arc<ClientConfig> {
    static CONFIG: OnceLock<Arc<ClientConfig>> = OnceLock::new();
    let make = || {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider);
        let builder = builder.with_safe_default_protocol_versions().unwrap().dangerous();
        let any = builder.with_custom_certificate_verifier(Arc::new(AnyServer));
        Arc::new(any.with_no_client_auth())
    };
    Arc::clone(CONFIG.get_or_init(make))
}

/// The plain side of a tunnel for one connection to this server.
pub(crate) fn open(server: SocketAddr) -> SocketAddr {
    open_with(server, any_server())
}

/// The same, for HTTP/2.
#[cfg(feature = "http2")]
pub(crate) fn open_http2(server: SocketAddr) -> SocketAddr {
    let mut config = ClientConfig::clone(&any_server());
    config.alpn_protocols.push(b"h2".to_vec());
    open_with(server, Arc::new(config))
}

fn open_with(server: SocketAddr, config: Arc<ClientConfig>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (near, _) = listener.accept().unwrap();
        let far = TcpStream::connect(server).unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let tls = ClientConnection::new(config, name).unwrap();
        for stream in [&near, &far] {
            stream.set_nonblocking(true).unwrap();
            stream.set_nodelay(true).unwrap();
            // Little may wait in between: tests measure how much a slow client is sent.
            rustix::net::sockopt::set_socket_recv_buffer_size(stream, 64 * 1024).unwrap();
            rustix::net::sockopt::set_socket_send_buffer_size(stream, 64 * 1024).unwrap();
        }
        let mut tunnel =
            Tunnel { near, far, tls, plain: Vec::new(), near_open: true, far_open: true };
        if tunnel.run().is_err() {
            for stream in [&tunnel.near, &tunnel.far] {
                let _ = rustix::net::sockopt::set_socket_linger(stream, Some(Duration::ZERO));
            }
        }
    });
    address
}

struct Tunnel {
    near: TcpStream,
    far: TcpStream,
    tls: ClientConnection,
    /// Decrypted, for the near side.
    plain: Vec<u8>,
    near_open: bool,
    far_open: bool,
}

impl Tunnel {
    fn run(&mut self) -> std::io::Result<()> {
        loop {
            self.turn()?;
            if self.plain.is_empty() && !self.far_open && !self.near_open {
                return Ok(());
            }
            let flag = |wanted: bool, flag| if wanted { flag } else { PollFlags::empty() };
            let near = flag(self.reads_near(), PollFlags::IN)
                | flag(!self.plain.is_empty(), PollFlags::OUT);
            let writes = self.far_open && self.tls.wants_write();
            let far = flag(self.reads_far(), PollFlags::IN) | flag(writes, PollFlags::OUT);
            let mut sides = vec![PollFd::new(&self.near, near)];
            if self.far_open {
                // An end that is known would be told again and again.
                sides.push(PollFd::new(&self.far, far));
            }
            poll(&mut sides, None)?;
        }
    }

    fn reads_near(&self) -> bool {
        // What comes when the server has ended is thrown away, as it would.
        let is_taken = !self.tls.wants_write() && !self.tls.is_handshaking();
        self.near_open && (is_taken || !self.far_open)
    }

    fn reads_far(&self) -> bool {
        self.far_open && self.plain.is_empty()
    }

    fn turn(&mut self) -> std::io::Result<()> {
        let mut piece = [0; 16 * 1024];
        if self.reads_near() {
            match ready(self.near.read(&mut piece))? {
                Some(0) => {
                    self.near_open = false;
                    self.tls.send_close_notify();
                }
                Some(count) if self.far_open => self.tls.writer().write_all(&piece[..count])?,
                Some(_) => {}
                None => {}
            }
        }
        while self.far_open
            && self.tls.wants_write()
            && ready(self.tls.write_tls(&mut self.far))?.is_some()
        {}
        if !self.near_open && !self.tls.wants_write() {
            let _ = self.far.shutdown(Shutdown::Write);
        }
        if self.reads_far() {
            if let Some(0) = ready(self.tls.read_tls(&mut self.far))? {
                self.far_open = false;
            }
            self.tls.process_new_packets().map_err(std::io::Error::other)?;
            loop {
                match self.tls.reader().read(&mut piece) {
                    Ok(0) => {
                        self.far_open = false;
                        break;
                    }
                    Ok(count) => self.plain.extend_from_slice(&piece[..count]),
                    Err(_) => break,
                }
            }
        }
        while !self.plain.is_empty() {
            let Some(count) = ready(self.near.write(&self.plain))? else { break };
            self.plain.drain(..count);
        }
        if !self.far_open && self.plain.is_empty() {
            let _ = self.near.shutdown(Shutdown::Write);
        }
        Ok(())
    }
}

fn ready<T>(result: std::io::Result<T>) -> std::io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
        Err(error) if error.kind() == ErrorKind::Interrupted => Ok(None),
        Err(error) => Err(error),
    }
}
