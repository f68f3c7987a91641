//! Filters on related rows over REST: results, bad input, pages that are not cached.

use marmota_http::Server;
use marmota_memory::Memory;
use marmota_model::{Field, Index, KeyKind, Kind, Relation, Role, Schema};
use marmota_rest::Api;
use marmota_sqlite::{Location, Sqlite, SqliteOptions};
use marmota_store::{Store, StoreBuilder};
use serde_json::{Value, json};

use crate::client::Client;

fn id() -> Field {
    Field::new("id", Kind::I64).role(Role::Key)
}

fn to(table: &'static str) -> Kind {
    Kind::Reference { table: table.into(), key: KeyKind::Auto }
}

fn models(builder: StoreBuilder) -> StoreBuilder {
    let person = Schema::new("person", vec![id(), Field::new("name", Kind::TEXT)]);
    let issue = vec![
        id(),
        Field::new("title", Kind::TEXT),
        Field::new("assignee", to("person")).nullable(true),
        Field::new("owner", to("marmota_owner")).nullable(true),
    ];
    let issue = Schema::new("issue", issue)
        .relations(vec![Relation::new("authors", "comment.author")])
        .indexes(vec![Index::new(vec![1])]);
    let comment = Schema::new(
        "comment",
        vec![id(), Field::new("issue", to("issue")), Field::new("author", to("person"))],
    );
    let owner = Schema::new("marmota_owner", vec![id(), Field::new("secret", Kind::TEXT)]);
    builder.schema(person).schema(owner).schema(issue).schema(comment)
}

fn on_engines(test: impl Fn(&Store, &mut Client)) {
    let sqlite = Sqlite::open(Location::Memory, SqliteOptions::default()).unwrap();
    for builder in [Store::builder(Memory::new()), Store::builder(sqlite).cache(1 << 20)] {
        let store = models(builder).open().unwrap();
        let router = Api::new(&store).router();
        let server = Server::bind("127.0.0.1:0").unwrap().start(router).unwrap();
        let client = &mut Client::new(server.local_addr());
        for (table, row) in [
            ("person", json!({"name": "Ada"})),
            ("person", json!({"name": "Bob"})),
            ("issue", json!({"title": "crash", "assignee": 1})),
            ("issue", json!({"title": "idea"})),
            ("comment", json!({"issue": 1, "author": 2})),
        ] {
            client.json(&format!("POST /api/{table}"), &row.to_string()).is(201);
        }
        test(&store, client);
    }
}

fn listed(client: &mut Client, filter: &str) -> Vec<i64> {
    let filter = filter.replace(' ', "%20").replace('>', "%3E");
    let page: Value = client.get(&format!("/api/issue?filter={filter}")).is(200).value();
    let rows = page["rows"].as_array().unwrap();
    rows.iter().map(|row| row["id"].as_i64().unwrap()).collect()
}

#[test]
fn the_description_of_tables_has_named_relations() {
    on_engines(|_, client| {
        let document: Value = client.get("/api").is(200).value();
        let table = |name: &str| {
            let tables = document["tables"].as_array().unwrap();
            tables.iter().find(|table| table["name"] == name).unwrap().clone()
        };
        let expected = json!([{ "name": "authors", "path": "comment.author" }]);
        assert_eq!(table("issue")["relations"], expected);
        assert_eq!(table("person").get("relations"), None);
    });
}

#[test]
fn filters_reach_related_rows() {
    on_engines(|_, client| {
        for (filter, wanted) in [
            ("assignee.name='Ada'", &[1][..]),
            ("not assignee.name='Ada'", &[2]),
            ("any(authors, name='Bob')", &[1]),
            ("none(comment)", &[2]),
            ("count(comment) >= 0", &[1, 2]),
            ("count(comment:issue, author.name='Bob') > 0 and title = 'crash'", &[1]),
        ] {
            assert_eq!(listed(client, filter), wanted, "{filter}");
        }
        let counted =
            client.get("/api/issue?filter=any(comment)&count=true&limit=1").is(200).value();
        assert_eq!(counted["count"], 1);
        client.send("DELETE /api/comment?filter=issue.title='crash'", &[], b"").is(200);
        assert!(listed(client, "any(comment)").is_empty());
    });
}

#[test]
fn bad_relations_are_400_with_the_place() {
    on_engines(|_, client| {
        for (filter, part) in [
            ("assignee.nme='x'", "`person` has no such field"),
            ("any(lables)", "it has assignee, owner, authors, comment"),
            ("any(comment", "expected `)`"),
            ("authors.name='x'", "write any(authors, …)"),
            ("count(comment)", "one of ="),
            ("count(comment)=99999999999", "a number of rows"),
            ("any(owner,secret='x')", "internal table"),
            ("owner.secret='x'", "internal table"),
            ("any(comment,author.name='x' or issue.owner.secret='x')", "internal table"),
            ("any(any(comment))", "relation"),
        ] {
            let filter = filter.replace(' ', "%20");
            for request in ["GET", "DELETE"] {
                let answer =
                    client.send(&format!("{request} /api/issue?filter={filter}"), &[], b"");
                let text = answer.refuses(400).text();
                assert!(text.contains(part), "{request} {filter}: {text}");
            }
        }
        let many = format!("{}1=1{}", "any(comment,any(issue,".repeat(40), "))".repeat(40));
        client.get(&format!("/api/issue?filter={many}")).refuses(400);
    });
}

#[test]
fn lists_are_ordered_by_related_rows() {
    on_engines(|_, client| {
        client
            .json("POST /api/issue", &json!({"title": "late", "assignee": 2}).to_string())
            .is(201);
        client
            .json("POST /api/issue", &json!({"title": "same", "assignee": 1}).to_string())
            .is(201);
        let page = |client: &mut Client, url: &str| {
            let page = client.get(url).is(200).value();
            let ids = page["rows"].as_array().unwrap().iter();
            let ids: Vec<i64> = ids.map(|row| row["id"].as_i64().unwrap()).collect();
            (ids, page["next"].as_str().map(str::to_owned))
        };
        assert_eq!(page(client, "/api/issue?order=assignee.name").0, [2, 1, 4, 3]);
        assert_eq!(page(client, "/api/comment?order=-issue.assignee.name").0, [1]);
        let (mut found, mut next) =
            (Vec::new(), Some("/api/issue?order=-assignee.name&limit=1".to_owned()));
        while let Some(url) = next.take() {
            assert!(client.get(&url).is(200).header("etag").is_none());
            let (ids, after) = page(client, &url);
            found.extend(ids);
            next = after;
        }
        assert_eq!(found, [3, 4, 1, 2]);
        let cursor = page(client, "/api/issue?order=assignee.name&limit=1").1.unwrap();
        client.get(&cursor.replace("assignee.name", "assignee")).refuses(400);
        for (order, part) in [
            ("assignee.nme", "`person` has no such field"),
            ("comment.id", "follow references only"),
            ("authors.name", "follow references only"),
            ("nothing.name", "has no relation `nothing`"),
            ("owner.secret", "internal table"),
            ("assignee.name,-assignee.name", "twice"),
        ] {
            let text = client.get(&format!("/api/issue?order={order}")).refuses(400).text();
            assert!(text.contains(part), "{order}: {text}");
        }
        let lines = ["Accept: application/x-ndjson"];
        client.send("GET /api/issue?order=assignee.name", &lines, b"").refuses(400);
        client.get("/api/person?expand=issue(order=assignee.name)").refuses(400);
    });
}

/// The version of a table does not determine a page whose rows depend on other tables.
#[test]
fn pages_with_relations_are_not_cached() {
    on_engines(|store, client| {
        let page = "/api/issue?filter=assignee.name='Eve'";
        let groups = "/api/issue?group=id&filter=assignee.name='Eve'";
        for target in [page, groups, page, groups] {
            let answer = client.get(target).is(200);
            assert_eq!(answer.header("etag"), None, "{target}");
            assert_eq!(answer.value()["rows"], json!([]), "{target}");
        }
        let person = store.table("person").unwrap();
        let mut ada = store.get_record(&person, 1).run().unwrap();
        ada.set("name", "Eve").unwrap();
        store.update_record(1, &ada).run().unwrap();
        assert_eq!(client.get(page).is(200).value()["rows"][0]["id"], 1);
        assert_eq!(client.get(groups).is(200).value()["rows"][0]["id"], 1);
    });
}
