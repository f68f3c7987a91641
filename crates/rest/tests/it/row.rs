//! One row: made, read, replaced, changed, deleted.

use serde_json::json;

use crate::service::on_every_engine;

const CURIE: &str = r#"{"first_name":"Marie","last_name":"Curie","year_of_birth":1867}"#;

#[test]
fn a_row_lives_and_dies() {
    on_every_engine(|service| {
        let client = &mut service.client();
        let made = client.json("POST /api/person", CURIE).is(201);
        assert_eq!(made.header("location"), Some("/api/person/1"));
        assert_eq!(made.header("etag"), Some("\"v1\""));
        assert_eq!(made.header("content-type"), Some("application/json"));
        let row = made.value();
        assert_eq!(row["id"], 1);
        assert_eq!(row["visits"], 0);
        assert_eq!(row["year_of_death"], json!(null));
        assert_eq!(row["created_at"], row["updated_at"]);
        assert!(row.get("photo").is_none(), "blobs are not shown unless named");

        let read = client.get("/api/person/1").is(200);
        assert_eq!(read.header("etag"), Some("\"v1\""));
        assert_eq!(read.value(), row);

        let patched = client.json("PATCH /api/person/1", r#"{"year_of_death":1934}"#).is(200);
        assert_eq!(patched.header("etag"), Some("\"v2\""));
        assert_eq!(patched.value()["year_of_death"], 1934);
        assert_eq!(patched.value()["first_name"], "Marie");
        assert_eq!(patched.value()["version"], 2);
        assert_eq!(patched.value()["created_at"], row["created_at"]);
        assert_eq!(client.get("/api/person/1").value(), patched.value());

        let replaced = client.json("PUT /api/person/1", &CURIE.replace("Marie", "Maria")).is(200);
        assert_eq!(replaced.value()["first_name"], "Maria");
        assert_eq!(replaced.value()["year_of_death"], json!(null), "a PUT replaces the whole row");
        assert_eq!(replaced.header("etag"), Some("\"v3\""));
        assert_eq!(client.get("/api/person/1").value(), replaced.value());

        client.json("DELETE /api/person/1", "").is(204);
        client.get("/api/person/1").is_problem(404).says("no `person` with id 1");
        client.json("DELETE /api/person/1", "").is_problem(404);
        client.json("PATCH /api/person/1", "{}").is_problem(404);
        client.json("PUT /api/person/1", CURIE).is_problem(404);
    });
}
