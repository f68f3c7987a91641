//! libpq's password file: lines of `host:port:database:user:password`, where `*` matches anything
//! and `\` escapes.

use std::path::PathBuf;

use marmota_model::{Error, ErrorKind, Result};

use super::{Host, PostgresOptions};

/// A larger file is not a password file.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Returns the password of the first matching line.
pub(super) fn look_up(
    options: &PostgresOptions,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<Option<String>> {
    let named = environment("PGPASSFILE").map(PathBuf::from);
    let home = environment("HOME")
        .map(PathBuf::from)
        .or_else(|| super::system_user().map(|user| user.dir));
    let home = || home.map(|home| home.join(".pgpass"));
    let Some(path) = named.or_else(home) else { return Ok(None) };
    let Ok(metadata) = std::fs::metadata(&path) else { return Ok(None) };
    if !metadata.is_file() || metadata.len() > FILE_BYTES_MAX {
        return Ok(None);
    }
    if is_open_to_others(&metadata) {
        // Like in libpq: it is ignored with a warning.
        log::warn!("{} is readable by other users and is ignored: chmod 600", path.display());
        return Ok(None);
    }
    let text = std::fs::read_to_string(&path).map_err(|error| {
        let message = format!("the password file {} cannot be read: {error}", path.display());
        Error::new(ErrorKind::Io, message)
    })?;
    Ok(text.lines().find_map(|line| password_in(line, options)))
}

#[cfg(unix)]
fn is_open_to_others(metadata: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    metadata.permissions().mode() & 0o077 != 0
}

#[cfg(not(unix))]
fn is_open_to_others(_: &std::fs::Metadata) -> bool {
    false
}

fn password_in(line: &str, options: &PostgresOptions) -> Option<String> {
    if line.starts_with('#') {
        return None;
    }
    let host = match &options.host {
        Host::Tcp(name) => name.clone(),
        // libpq's name for the socket in its default folder.
        Host::Unix(folder) => folder.display().to_string(),
    };
    let mut fields = fields(line).into_iter();
    let port = options.port.to_string();
    for wanted in [&host, &port, &options.database, &options.user] {
        let field = fields.next()?;
        let is_local = matches!(options.host, Host::Unix(_)) && *wanted == host;
        if field != "*" && field != *wanted && !(is_local && field == "localhost") {
            return None;
        }
    }
    fields.next()
}

fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        match character {
            ':' if fields.len() < 5 => fields.push(String::new()),
            character => {
                let taken = if character == '\\' { characters.next() } else { Some(character) };
                if let (Some(last), Some(taken)) = (fields.last_mut(), taken) {
                    last.push(taken);
                }
            }
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_that_fits_has_the_password() {
        let options = PostgresOptions::parse_in("postgres://ada@db:5433/app", &|_| None).unwrap();
        for (line, password) in [
            ("db:5433:app:ada:a:b", Some("a:b")),
            ("*:*:*:ada:x\\:y\\\\", Some("x:y\\")),
            ("db:5432:app:ada:wrong port", None),
            ("# *:*:*:*:remark", None),
            ("db:5433:app", None),
        ] {
            assert_eq!(password_in(line, &options).as_deref(), password, "{line}");
        }
    }
}
