//! Builds the SQLite version and options of Marmota's engine, so that layers are compared, not
//! builds.

fn main() {
    let folder = sqlcipher_src::source_dir();
    // Without SQLITE_HAS_CODEC, this amalgamation is plain SQLite.
    let mut build = cc::Build::new();
    build
        .include(folder)
        .file(folder.join(sqlcipher_src::SOURCE_FILE))
        .opt_level(3)
        .warnings(false);
    for option in [
        "DQS=0",
        "THREADSAFE=2",
        "DEFAULT_MEMSTATUS=0",
        "LIKE_DOESNT_MATCH_BLOBS",
        "MAX_EXPR_DEPTH=0",
        "OMIT_DEPRECATED",
        "OMIT_SHARED_CACHE",
        "OMIT_PROGRESS_CALLBACK",
        "OMIT_AUTOINIT",
        "OMIT_LOAD_EXTENSION",
        "OMIT_TRACE",
        "OMIT_AUTHORIZATION",
        "OMIT_DECLTYPE",
        "USE_ALLOCA",
    ] {
        let (name, value) =
            option.split_once('=').map_or((option, None), |(name, value)| (name, Some(value)));
        build.define(&format!("SQLITE_{name}"), value);
    }
    build.compile("benchfloorsqlite");
    println!("cargo::rerun-if-changed=build.rs");
}
