//! Compiles SQLite with the options that suit this engine, its symbols
//! renamed so that a program may link another SQLite beside it.
//!
//! Options were chosen by what they measure (plain C calls, the record of
//! `examples/sqlite_rates.rs`): together they are worth 1.1 to 1.4 on reads by key.
//!
//! Without the feature `encryption` the source is SQLCipher's amalgamation,
//! which is plain SQLite as long as `SQLITE_HAS_CODEC` is not defined. With it,
//! the source is that of SQLite3 Multiple Ciphers, of whose ciphers only AEGIS
//! is compiled in.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Functions of our own, which include SQLite's source.
const ROWS: &str = "src/ffi/rows.c";
/// Those that need the ciphers; included by [`ROWS`].
const CIPHER: &str = "src/ffi/cipher.c";
/// What a commit waits for; included by [`ROWS`].
const DURABILITY: &str = "src/ffi/durability.c";
/// How the snapshot of an interrupted read is kept; included by [`ROWS`].
const BUDGET: &str = "src/ffi/budget.c";
/// Whole pages that come from another database; included by [`ROWS`].
const PAGES: &str = "src/ffi/pages.c";
/// Rows before and after a change; included by [`ROWS`].
const CHANGES: &str = "src/ffi/changes.c";

/// `SQLITE_…` options, with their values.
const OPTIONS: &[&str] = &[
    // A connection is used by one thread at a time; `ffi::Connection` sees to it.
    "THREADSAFE=2",
    "DEFAULT_MEMSTATUS=0",
    "USE_ALLOCA",
    "MAX_MMAP_SIZE=0",
    // A database has hashes of passwords. Its log and journal take its mode.
    "DEFAULT_FILE_PERMISSIONS=0600",
    // A text in double quotes is a name, never a constant.
    "DQS=0",
    "LIKE_DOESNT_MATCH_BLOBS",
    // A filter has 500 terms at most, a page's start adds two for each field
    // of the order.
    "MAX_EXPR_DEPTH=1000",
    "DEFAULT_FOREIGN_KEYS=1",
    "OMIT_AUTOINIT",
    "OMIT_AUTHORIZATION",
    "OMIT_DEPRECATED",
    "OMIT_LOAD_EXTENSION",
    "OMIT_SHARED_CACHE",
    "OMIT_TRACE",
    "UNTESTABLE",
    // A file made elsewhere may have triggers or generated columns that need
    // these; without them its tables could not be written.
    "ENABLE_FTS5",
    "ENABLE_MATH_FUNCTIONS",
    "ENABLE_RTREE",
    // Which field a column of a statement is read from, and so its kind.
    "ENABLE_COLUMN_METADATA",
    // The change feed has rows as they were before a change.
    "ENABLE_PREUPDATE_HOOK",
];

/// What a Unix has, which SQLite does not find out by itself.
const UNIX: &[&str] = &[
    "HAVE_FDATASYNC",
    "HAVE_GMTIME_R",
    "HAVE_LOCALTIME_R",
    // Without it a busy file is looked at once a second.
    "HAVE_USLEEP",
];

/// Counts the system calls that wait for the disk, for each thread: a connection
/// is used by one at a time, so its user knows how many it made. The upper 16 bits
/// count those that failed, which SQLite ignores for a folder. A file system that
/// cannot sync a folder or a special file reports EINVAL or ENOTSUP: that loses nothing.
const SYNCS: &str = "\
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#ifndef _FILE_OFFSET_BITS
#define _FILE_OFFSET_BITS 64
#endif
#include <errno.h>
#include <unistd.h>
static __thread unsigned long long marmota_thread_syncs;
static __thread int marmota_thread_sync_errno;
static inline int marmota_synced(int result) {
  marmota_thread_syncs++;
  if (result != 0 && errno != EINVAL && errno != ENOTSUP && errno != ENOSYS) {
    marmota_thread_sync_errno = errno;
    marmota_thread_syncs += 1ULL << 48;
  }
  return result;
}
static inline int marmota_fsync(int file) { return marmota_synced(fsync(file)); }
#define fsync(file) marmota_fsync(file)
#ifndef __APPLE__
static inline int marmota_fdatasync(int file) { return marmota_synced(fdatasync(file)); }
#define fdatasync(file) marmota_fdatasync(file)
#endif
#define MARMOTA_SYNCS marmota_thread_syncs
";

/// Makes SQLite's mutexes spin for a moment before they sleep. Each read of a
/// file takes the shared-memory mutex that all its connections share, for less
/// than a microsecond, and threads that met there slept and woke for it.
/// Measured on two cores, spinning gives 3 to 8 % more reads and writes.
const SPIN: &str = "\
#include <pthread.h>
static inline int marmota_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *given) {
  if (given) return pthread_mutex_init(mutex, given);
  pthread_mutexattr_t adaptive;
  pthread_mutexattr_init(&adaptive);
  pthread_mutexattr_settype(&adaptive, PTHREAD_MUTEX_ADAPTIVE_NP);
  int result = pthread_mutex_init(mutex, &adaptive);
  pthread_mutexattr_destroy(&adaptive);
  return result;
}
#define pthread_mutex_init marmota_mutex_init
";

/// Ciphers of SQLite3 Multiple Ciphers that are left out: older, slower, or
/// without a check of what they decrypt.
#[cfg(feature = "encryption")]
const CIPHERS_OMITTED: &[&str] =
    &["AES_128_CBC", "AES_256_CBC", "CHACHA20", "SQLCIPHER", "RC4", "ASCON128"];

/// Symbols of the ciphers' parts that are not SQLite's, and of which libsodium
/// has the same (`nm -g` on the library lists them).
#[cfg(feature = "encryption")]
const CIPHER_SYMBOLS: &[&str] = &[
    "crypto_onetimeauth_poly1305_donna_implementation",
    "crypto_onetimeauth_poly1305_sse2_implementation",
    "crypto_stream_chacha20_dolbeau_avx2_implementation",
    "crypto_stream_chacha20_dolbeau_avx512_implementation",
    "crypto_stream_chacha20_dolbeau_neon_implementation",
    "crypto_stream_chacha20_dolbeau_ssse3_implementation",
    "crypto_stream_chacha20_ietf_ext_xor_ic",
    "crypto_stream_chacha20_ietf_xor_ic",
    "crypto_stream_chacha20_pick_best_implementation",
    "crypto_stream_chacha20_ref_implementation",
    "crypto_stream_chacha20_xor_ic",
    "sqlite3mcChaCha20HwAccelerated",
    "sqlite3mcChaCha20HwConfig",
];

/// The folder and the file of SQLite's source.
#[cfg(not(feature = "encryption"))]
fn sqlite_source() -> (&'static Path, &'static str) {
    (sqlcipher_src::source_dir(), sqlcipher_src::SOURCE_FILE)
}

/// The folder and the file of SQLite's source, with ciphers.
#[cfg(feature = "encryption")]
fn sqlite_source() -> (&'static Path, &'static str) {
    (sqlite3mc_src::source_dir(), sqlite3mc_src::SOURCE_FILE)
}

fn main() {
    let (folder, file) = sqlite_source();
    let source = folder.join(file);
    let out = PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default());
    let names = out.join("names.h");
    if let Err(error) = write_names(&source, &names) {
        println!("cargo::error=cannot read {}: {error}", source.display());
        return;
    }
    let mut build = cc::Build::new();
    // Optimised in debug builds too, but only as far as takes little time.
    let is_debug = std::env::var_os("PROFILE").is_some_and(|profile| profile == "debug");
    let level = if is_debug { 1 } else { 3 };
    build.include(folder).file(ROWS).opt_level(level).warnings(false);
    build.define("MARMOTA_SQLITE_SOURCE", &*format!("\"{file}\""));
    #[cfg(feature = "encryption")]
    {
        build.define("MARMOTA_CIPHER", "1").define("CODEC_TYPE", "CODEC_TYPE_AEGIS");
        for cipher in CIPHERS_OMITTED {
            build.define(&format!("HAVE_CIPHER_{cipher}"), "0");
        }
        // As SQLite has it; a connection with a key keeps what is temporary
        // in memory.
        build.define("SQLITE_TEMP_STORE", "1");
    }
    #[cfg(feature = "simulated-disk")]
    build.define("MARMOTA_SIMULATED_DISK", "1");
    // Its symbols are of no use to a debugger here, and `cc` would have every
    // function keep a frame pointer along with them.
    build.debug(false).force_frame_pointer(false);
    if build.get_compiler().is_like_msvc() {
        build.flag("/FI").flag(&names);
    } else {
        build.flag("-include").flag(&names);
    }
    for option in OPTIONS {
        let (name, value) = option.split_once('=').unwrap_or((option, "1"));
        build.define(&format!("SQLITE_{name}"), value);
    }
    if std::env::var("CARGO_CFG_UNIX").is_ok() {
        for option in UNIX {
            build.define(option, "1");
        }
    }
    build.compile("marmota_sqlite3");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={ROWS}");
    println!("cargo::rerun-if-changed={CIPHER}");
    println!("cargo::rerun-if-changed={DURABILITY}");
    println!("cargo::rerun-if-changed={BUDGET}");
    println!("cargo::rerun-if-changed={PAGES}");
    println!("cargo::rerun-if-changed={CHANGES}");
}

/// Writes the header that stands before SQLite: it renames every public symbol
/// (`sqlite3_step` becomes `marmota_sqlite3_step`), counts syncs and has mutexes spin.
fn write_names(source: &Path, header: &Path) -> std::io::Result<()> {
    let source = std::fs::read_to_string(source)?;
    let mut names = BTreeSet::new();
    for line in source.lines().filter(|line| line.starts_with("SQLITE_API")) {
        // The name is the word before the arguments, or the last one before
        // the value of a variable.
        let end = line.find(['(', '=', '[', ';']).unwrap_or(line.len());
        let name = line[..end].trim_end().rsplit([' ', '*']).next().unwrap_or_default();
        if name.starts_with("sqlite3") {
            names.insert(name);
        }
    }
    #[cfg(feature = "encryption")]
    names.extend(CIPHER_SYMBOLS);
    let mut text = String::new();
    for name in names {
        let _ = writeln!(text, "#define {name} marmota_{name}");
    }
    if std::env::var("CARGO_CFG_UNIX").is_ok() {
        text.push_str(SYNCS);
    }
    if std::env::var("CARGO_CFG_TARGET_ENV").is_ok_and(|libc| libc == "gnu") {
        text.push_str(SPIN);
    }
    std::fs::write(header, text)
}
