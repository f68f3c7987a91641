//! Compression is offered to the server, which decides. FerretDB takes none:
//! what a server that does would answer is not tested here.

use crate::tee::Tee;
use crate::{Office, open, server};

/// What an offer is called.
const OFFER: &[u8] = b"compression\0";

#[test]
fn compressors_of_the_url_are_offered_and_may_be_declined() {
    for (name, member) in [
        ("zstd", b"\x020\0\x05\0\0\0zstd\0".as_slice()),
        ("snappy", b"\x020\0\x07\0\0\0snappy\0"),
        ("zlib", b"\x020\0\x05\0\0\0zlib\0"),
    ] {
        let tee = Tee::before(&server().url());
        let store = open(&format!("{}?compressors={name}", tee.url()));
        assert!(tee.count(member) > 0, "{name} was not offered");
        let long = Office::new("1", &"Nord ".repeat(2_000));
        store.insert(&long).run().unwrap();
        assert_eq!(store.get::<Office>("1").run().unwrap(), long);
        store.close().unwrap();
    }
    let tee = Tee::before(&server().url());
    open(tee.url()).close().unwrap();
    assert_eq!(tee.count(OFFER), 0, "nobody asked for compression");
}
