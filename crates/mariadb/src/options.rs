//! The options of an engine: the driver's, and those of the pool.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use marmota_model::Result;
use marmota_sql::{LastServer, TargetServer, percent_decoded, split_servers};
use mysql::SslOpts;

use crate::connection::DriverOptions;
use crate::fault::invalid;

/// The parameters of the connection to a server.
const OF_SERVER: [&str; 5] = ["socket", "require_ssl", "ssl_ca", "verify_ca", "verify_identity"];
/// The default of [`MariadbOptions::connections_max`].
const CONNECTIONS_MAX: usize = 64;
/// The default of [`MariadbOptions::lock_timeout`].
const LOCK_TIMEOUT: Duration = Duration::from_secs(30);

/// The options of a connection to MariaDB or MySQL.
///
/// ```
/// use marmota_mariadb::MariadbOptions;
/// let options = MariadbOptions::parse("mariadb://ada:secret@localhost/app?connections_max=16")?;
/// assert_eq!(options.connections_max, 16);
/// assert_eq!(options.place(), "`app` at localhost:3306");
/// # Ok::<(), marmota_model::Error>(())
/// ```
#[derive(Clone)]
pub struct MariadbOptions {
    /// One for each server.
    pub(crate) servers: Vec<DriverOptions>,
    pub(crate) last_server: LastServer,
    place: String,
    /// Which of the servers are used. Default: any; the primary if there are several servers.
    pub target: TargetServer,
    /// The maximum number of connections of each purpose: reads, writes, and transactions. Default:
    /// 64.
    pub connections_max: usize,
    /// The longest time that a write waits for a row lock. Default: 30 s.
    pub lock_timeout: Duration,
}

impl MariadbOptions {
    /// Parses a URL: `mariadb://user:password@host:port/database?parameter=value`, or the same with
    /// `mysql:`. The servers of a cluster are separated by commas: `host1:port1,host2:port2`. The
    /// parameters are `connections_max`, `lock_timeout_s`, `target_session_attrs` (any, read-write
    /// or primary), `socket`, `require_ssl`, `ssl_ca`, `verify_ca` and `verify_identity`.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](marmota_model::ErrorKind::Invalid) for a URL of another form, or without a database.
    pub fn parse(url: &str) -> Result<Self> {
        let rest = url.strip_prefix("mariadb://").or_else(|| url.strip_prefix("mysql://"));
        let rest =
            rest.ok_or_else(|| invalid("the URL has to begin with `mariadb://` or `mysql://`"))?;
        let (base, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (mut connections_max, mut lock_timeout) = (CONNECTIONS_MAX, LOCK_TIMEOUT);
        let (mut of_driver, mut target) = (Vec::new(), None);
        let (mut requires_tls, mut verifies_ca, mut verifies_name) = (false, true, true);
        let mut ca = None;
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let number = |least: u32, most: u32| {
                let number = value.parse().ok().filter(|number| (least..=most).contains(number));
                number.ok_or_else(|| {
                    invalid(&format!("`{name}={value}`: must be a number from {least} to {most}"))
                })
            };
            let flag = || {
                let wrong = |_| invalid(&format!("`{name}={value}`: must be true or false"));
                value.parse::<bool>().map_err(wrong)
            };
            match name {
                "connections_max" => connections_max = number(1, 10_000)? as usize,
                "lock_timeout_s" => lock_timeout = Duration::from_secs(number(1, 3_600)?.into()),
                "target_session_attrs" => target = Some(value),
                "ssl_ca" => ca = Some(readable(value)?),
                "require_ssl" => requires_tls = flag()?,
                "verify_ca" => verifies_ca = flag()?,
                "verify_identity" => verifies_name = flag()?,
                "socket" => of_driver.push(pair),
                name => {
                    let names = OF_SERVER.join("`, `");
                    return Err(invalid(&format!(
                        "`{name}` is not a parameter; there are `connections_max`, \
                         `lock_timeout_s`, `target_session_attrs`, `{names}`"
                    )));
                }
            }
        }
        let (authority, database) = base.split_once('/').unwrap_or((base, ""));
        let (user, servers) = authority.rsplit_once('@').unwrap_or(("", authority));
        let servers = split_servers(servers)
            .map_err(|server| invalid(&format!("`{server}` has a `[` without its `]`")))?;
        let target = TargetServer::parse(target, servers.len()).map_err(|why| {
            invalid(&format!("`target_session_attrs={}`: {why}", target.unwrap_or_default()))
        })?;
        if ca.is_some() && !requires_tls {
            return Err(invalid("`ssl_ca` has no effect without `require_ssl=true`"));
        }
        if servers.len() > 1 && !of_driver.is_empty() {
            return Err(invalid("`socket` names one server, and the URL has several"));
        }
        let tls = requires_tls.then(|| {
            SslOpts::default()
                .with_root_cert_path(ca)
                .with_danger_accept_invalid_certs(!verifies_ca)
                .with_danger_skip_domain_validation(!verifies_name)
        });
        let servers = servers.into_iter().map(|(host, port)| {
            if host.is_empty() {
                return Err(invalid("it has an empty host"));
            }
            let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
            let port = if port.is_empty() { "3306" } else { port };
            let of_driver = of_driver.join("&");
            let url = format!("mysql://{user}@{host}:{port}/{database}?{of_driver}");
            DriverOptions::parse(&url, tls.clone())
        });
        let servers = servers.collect::<Result<Vec<_>>>()?;
        let places: Vec<String> = servers.iter().map(DriverOptions::server).collect();
        let place = format!("`{}` at {}", servers[0].database(), places.join(", "));
        let last_server = LastServer::default();
        Ok(Self { servers, last_server, place, target, connections_max, lock_timeout })
    }

    /// Returns the database and the servers, without the password.
    #[must_use]
    pub fn place(&self) -> &str {
        &self.place
    }
}

/// Returns the path of a file with certificates, from the value of a parameter.
fn readable(value: &str) -> Result<PathBuf> {
    let path = percent_decoded(value).map(PathBuf::from);
    let path = path.ok_or_else(|| invalid(&format!("`ssl_ca={value}`: must be a path")))?;
    match std::fs::File::open(&path) {
        Ok(_) => Ok(path),
        Err(error) => Err(invalid(&format!("`ssl_ca={value}`: {error}"))),
    }
}

impl fmt::Debug for MariadbOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MariadbOptions({})", self.place)
    }
}

#[cfg(test)]
mod tests {
    use marmota_model::ErrorKind;

    use super::*;

    #[test]
    fn errors_name_the_parameter_and_no_password() {
        for (url, part) in [
            ("mariadb://a:secret@h/d?connections_max=0", "connections_max=0"),
            ("mysql://a:secret@h/d?color=red", "`color` is not a parameter; there are"),
            ("mysql://a:secret@h", "database"),
            ("http://a:secret@h/d", "mariadb://"),
            ("mariadb://a:secret@h/d?require_ssl=yes", "must be true or false"),
            ("mariadb://a:secret@h/d?require_ssl=true&ssl_ca=/no/ca.pem", "ssl_ca=/no/ca.pem"),
            ("mariadb://a:secret@h/d?ssl_ca=/dev/null", "require_ssl=true"),
            ("mariadb://a:secret@h,,i/d", "empty host"),
            ("mariadb://a:secret@h,i:x/d", "port"),
            ("mariadb://a:secret@h,[::1/d", "`]`"),
            ("mariadb://a:secret@h,i/d?socket=/s", "`socket`"),
            ("mariadb://a:secret@h,i/d?target_session_attrs=standby", "read-write"),
        ] {
            let error = MariadbOptions::parse(url).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{url}");
            assert!(error.message().contains(part), "{error}");
            assert!(!error.message().contains("secret"), "{error}");
        }
    }

    #[test]
    fn tls_is_used_if_it_is_required() {
        let is_plain = |url: &str| MariadbOptions::parse(url).unwrap().servers[0].is_plain();
        assert!(is_plain("mariadb://a:b@h/d?require_ssl=false&verify_ca=true"));
        assert!(!is_plain("mariadb://a:b@h/d?require_ssl=true&verify_identity=false"));
    }

    #[test]
    fn a_url_has_several_servers() {
        let options = MariadbOptions::parse("mariadb://a:p@h,i:3307,[::1]:3308/d").unwrap();
        assert_eq!(options.place(), "`d` at h:3306, i:3307, ::1:3308");
        assert_eq!(options.target, TargetServer::Primary);
        let options = MariadbOptions::parse("mariadb://h/d").unwrap();
        assert_eq!((options.place(), options.target), ("`d` at h:3306", TargetServer::Any));
    }
}
