//! Keys of connections: safe wrappers of the calls to SQLite3 Multiple Ciphers.
//! `marmota_store::key` defines keys and their sources; this file only passes them on.

use std::ffi::{c_char, c_int};
use std::path::Path;

use marmota_store::key::{KEY_BYTES, KeyBytes};
use zeroize::Zeroizing;

use super::raw::Db;
use super::{Bound, Connection, Failure, code};

pub(crate) const SALT_BYTES: usize = 16;
/// The prefix of a key that needs no derivation.
const RAW: &[u8; 4] = b"raw:";

/// The first bytes of an encrypted file, mixed into the passphrase.
pub(crate) type Salt = [u8; SALT_BYTES];

/// The kind of a file by its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileStart {
    /// An empty file.
    Empty,
    /// A database that is not encrypted.
    Plain,
    /// Anything else: a salt, if it is an encrypted database.
    Other(Salt),
}

unsafe extern "C" {
    fn marmota_cipher(db: *mut Db) -> c_int;
    fn marmota_key(db: *mut Db, key: *const u8, bytes: c_int) -> c_int;
    fn marmota_rekey(db: *mut Db, key: *const u8, bytes: c_int) -> c_int;
    fn marmota_derive(
        passphrase: *const c_char,
        length: c_int,
        salt: *const u8,
        key: *mut u8,
    ) -> c_int;
    fn marmota_random(bytes: *mut u8, count: c_int);
    fn marmota_file_start(db: *mut Db, bytes: *mut u8) -> c_int;
}

impl Connection {
    /// Returns the kind of the file by its first bytes, independent of its key.
    pub(crate) fn file_start(&mut self) -> Result<FileStart, Failure> {
        const PLAIN: &Salt = b"SQLite format 3\0";
        const SHORT_READ: c_int = code::IOERR | 2 << 8;
        let mut bytes = Salt::default();
        // SAFETY: the connection is open, and there is room for 16 bytes.
        match unsafe { marmota_file_start(self.db.as_ptr(), bytes.as_mut_ptr()) } {
            // A shorter file does not count as a database: SQLite would overwrite it.
            SHORT_READ => Ok(FileStart::Empty),
            code::OK if bytes == *PLAIN => Ok(FileStart::Plain),
            code::OK => Ok(FileStart::Other(bytes)),
            code => Err(Failure::new(code, "the file cannot be read")),
        }
    }

    /// Sets the key for all later operations. It is not verified here, but by the first read.
    pub(crate) fn use_key(&mut self, key: &KeyBytes, salt: &Salt) -> Result<(), Failure> {
        let key = handed_over(key, salt);
        // SAFETY: the connection is open, and the key is read within the call.
        let code = unsafe { marmota_key(self.db.as_ptr(), key.as_ptr(), key.len() as c_int) };
        if code == code::OK { Ok(()) } else { Err(self.failure(code)) }
    }

    /// Like [`Connection::attach`], for a file with a key, which is verified here.
    pub(crate) fn attach_with_key(
        &mut self,
        path: &Path,
        name: &str,
        key: &KeyBytes,
        salt: &Salt,
    ) -> Result<(), Failure> {
        // SAFETY: the connection is open.
        let code = unsafe { marmota_cipher(self.db.as_ptr()) };
        if code != code::OK {
            return Err(self.failure(code));
        }
        self.attach_by(path, name, Bound::blob(&*handed_over(key, salt)))
    }

    /// Rewrites the whole file with this key, or without encryption.
    pub(crate) fn change_key(&mut self, key: Option<(&KeyBytes, &Salt)>) -> Result<(), Failure> {
        let key = key.map(|(key, salt)| handed_over(key, salt));
        let bytes: &[u8] = key.as_ref().map_or(&[], |key| key.as_slice());
        // SAFETY: as for `use_key`; zero bytes mean no key.
        let code = unsafe { marmota_rekey(self.db.as_ptr(), bytes.as_ptr(), bytes.len() as c_int) };
        if code == code::OK { Ok(()) } else { Err(self.failure(code)) }
    }
}

/// Returns a key and a salt in the form that the cipher takes.
fn handed_over(key: &KeyBytes, salt: &Salt) -> Zeroizing<[u8; RAW.len() + KEY_BYTES + SALT_BYTES]> {
    let mut bytes = Zeroizing::new([0; RAW.len() + KEY_BYTES + SALT_BYTES]);
    bytes[..RAW.len()].copy_from_slice(RAW);
    bytes[RAW.len()..][..KEY_BYTES].copy_from_slice(&**key);
    bytes[RAW.len() + KEY_BYTES..].copy_from_slice(salt);
    bytes
}

/// Derives the key of a passphrase with Argon2id and the cipher's own parameters. Deliberately
/// takes about 20 ms and 19 MiB.
pub(crate) fn derive(passphrase: &str, salt: &Salt) -> Result<KeyBytes, Failure> {
    let mut key = KeyBytes::default();
    let length = c_int::try_from(passphrase.len())
        .map_err(|_| Failure::new(code::TOOBIG, "the passphrase is too long"))?;
    // SAFETY: the passphrase has this number of bytes, the salt has 16 and the key 32, as the
    // function requires.
    let code = unsafe {
        marmota_derive(passphrase.as_ptr().cast(), length, salt.as_ptr(), key.as_mut_ptr())
    };
    match code {
        0 => Ok(key),
        code => Err(Failure::new(code::NOMEM, format!("no key could be derived (Argon2: {code})"))),
    }
}

/// Returns a salt for a new file.
pub(crate) fn new_salt() -> Result<Salt, Failure> {
    // The random numbers need a mutex of SQLite.
    super::initialize()?;
    let mut salt = Salt::default();
    // SAFETY: there is room for 16 bytes.
    unsafe { marmota_random(salt.as_mut_ptr(), SALT_BYTES as c_int) };
    Ok(salt)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file can be opened by any program with this cipher and the passphrase.
    #[test]
    fn the_cipher_derives_the_same_key() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        let mut connection = Connection::open_file(&path).unwrap();
        let salt = new_salt().unwrap();
        connection.use_key(&derive("open sesame", &salt).unwrap(), &salt).unwrap();
        connection.execute("CREATE TABLE t(x); INSERT INTO t VALUES(7)").unwrap();
        drop(connection);
        assert!(std::fs::read(&path).unwrap().starts_with(&salt));

        let mut connection = Connection::open_file(&path).unwrap();
        connection
            .execute(
                "PRAGMA cipher='aegis'; PRAGMA algorithm='aegis-256x2'; PRAGMA key='open sesame'",
            )
            .unwrap();
        let mut read = 0;
        connection.query("SELECT x FROM t", |row| read = row.at(0).int()).unwrap();
        assert_eq!(read, 7);
    }
}
