//! Blobs: raw bytes under a path of their own, base64url within a row.

use crate::service::on_every_engine;

#[test]
fn bytes_go_there_and_back() {
    on_every_engine(|service| {
        let client = &mut service.client();
        let body = r#"{"first_name":"Ada","last_name":"Lovelace","year_of_birth":1815}"#;
        client.json("POST /api/person", body).is(201);
        client.get("/api/person/1/photo").refuses(404).says("is null");
        let bytes: Vec<u8> = (0..=255).cycle().take(100_000).collect();
        let put = client.send("PUT /api/person/1/photo", &["Content-Type: image/png"], &bytes);
        assert_eq!(put.is(204).header("etag"), Some("\"v2\""));
        let read = client.get("/api/person/1/photo").is(200);
        assert_eq!(read.header("content-type"), Some("application/octet-stream"));
        assert_eq!(read.header("etag"), Some("\"v2\""));
        assert!(read.body == bytes);
        client.send("GET /api/person/1/photo", &["If-None-Match: \"v2\""], b"").is(304);
        let head = client.send("HEAD /api/person/1/photo", &[], b"").is(200);
        assert_eq!(head.header("content-length"), Some("100000"));

        // A PUT of the row leaves the blob alone; null in it, or in a PATCH, does not.
        client.json("PUT /api/person/1", body).is(200);
        assert_eq!(client.get("/api/person/1/photo").is(200).body.len(), bytes.len());
        client.send("PUT /api/person/1/photo", &["If-Match: \"v2\""], b"x").refuses(412);
        client.send("PUT /api/person/1/photo", &["If-Match: \"v3\""], b"\xff\0").is(204);
        let row = client.get("/api/person/1?fields=photo").is(200);
        assert_eq!(row.text(), r#"{"photo":"_wA"}"#);
        client.json("PATCH /api/person/1", r#"{"photo":"AAEC"}"#).is(200);
        assert_eq!(client.get("/api/person/1/photo").body, [0, 1, 2]);
        client.json("PATCH /api/person/1", r#"{"photo":null}"#).is(200);
        client.get("/api/person/1/photo").refuses(404);
        client.json("PATCH /api/person/1", r#"{"photo":"*"}"#).names(422, "photo", "type");
    });
}

#[test]
fn a_table_without_a_version_has_blobs_too() {
    on_every_engine(|service| {
        let client = &mut service.client();
        client.json("POST /api/city", r#"{"code":"a","name":"x"}"#).is(201);
        let put = client.send("PUT /api/city/a/arms", &[], b"three sheep").is(204);
        let read = client.get("/api/city/a/arms").is(200);
        assert_eq!(read.header("etag"), put.header("etag"));
        client.send("PUT /api/city/a/arms", &[], b"").is(204);
        assert_eq!(client.get("/api/city/a/arms").is(200).body, b"");
    });
}

#[test]
fn what_is_no_blob_is_not_found() {
    on_every_engine(|service| {
        let client = &mut service.client();
        client.get("/api/person/1/photo").refuses(404).says("no `person` with id 1");
        client.get("/api/person/1/last_name").refuses(404).says("not a blob");
        client.get("/api/person/1/nope").refuses(404).says("no field `nope`");
        client.send("PUT /api/person/1/photo", &[], b"x").refuses(404);
        client.send("PUT /api/person/1/last_name", &[], b"x").refuses(404);
        client.get("/api/person/x/photo").names(400, "id", "type");
        client.get("/api/person/1/photo?size=1").names(400, "size", "unknown");
    });
}
