//! File fields over REST: uploads, downloads, their headers, conditions and limits.

use std::sync::Arc;

use marmota_derive::Model;
use marmota_files::{File, FileStorage};
use marmota_http::{TestResponse, Method, Router, TestRequest};
use marmota_memory::Memory;
use marmota_rest::Api;
use marmota_sqlite::Sqlite;
use marmota_store::Store;

#[derive(Clone, Debug, Model)]
pub(crate) struct Issue {
    pub(crate) id: i64,
    #[model(default = "")]
    pub(crate) title: String,
    #[model(bytes_max = "1 MB")]
    pub(crate) attachment: Option<File>,
    #[model(bytes_max = "100 kB", types("image/*", "application/pdf"))]
    pub(crate) photo: Option<File>,
    #[model(version)]
    pub(crate) version: i64,
}

pub(crate) struct Service {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) storage: FileStorage,
    pub(crate) store: Store,
    pub(crate) router: Arc<Router>,
}

impl Drop for Service {
    fn drop(&mut self) {
        self.storage.stop();
        self.store.close().unwrap();
    }
}

pub(crate) fn service(engine: &str) -> Service {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("issues.db");
    let builder = match engine {
        "memory" => Store::builder(Memory::new()),
        _ => Store::builder(Sqlite::from_url(&format!("sqlite:{}", file.display())).unwrap()),
    };
    let storage = FileStorage::open(&format!("{}/files", folder.path().display())).unwrap();
    let store = storage.attach(builder.model::<Issue>()).open().unwrap();
    storage.start(&store).unwrap();
    let router = Arc::new(Api::new(&store).files(&storage).router());
    Service { folder, storage, store, router }
}

impl Service {
    pub(crate) fn call(&self, request: TestRequest) -> TestResponse {
        self.router.call(request).unwrap()
    }

    pub(crate) fn issue(&self) -> i64 {
        let issue = Issue {
            id: 0,
            title: "Sounds".to_owned(),
            attachment: None,
            photo: None,
            version: 0,
        };
        self.store.insert(&issue).run().unwrap()
    }

    fn put(&self, path: &str, media_type: &str, body: impl Into<Vec<u8>>) -> TestResponse {
        let request = TestRequest::put(path).header("Content-Type", media_type);
        self.call(request.header("Content-Disposition", NAME).body(body.into()))
    }

    /// The number of files in the storage.
    pub(crate) fn files(&self) -> usize {
        let folders = std::fs::read_dir(self.folder.path().join("files/files"));
        let folders = folders.into_iter().flatten().flatten();
        folders.flat_map(|folder| std::fs::read_dir(folder.path()).unwrap()).count()
    }

    pub(crate) fn wait_for_files(&self, count: usize) {
        let start = std::time::Instant::now();
        while self.files() != count {
            assert!(start.elapsed().as_secs() < 10, "{} files", self.files());
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}

const NAME: &str = "attachment; filename=\"../marmot.txt\"";
const PATH: &str = "/api/issue/1/attachment";
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR and so on";

fn on_both(test: impl Fn(&Service)) {
    for engine in ["memory", "sqlite"] {
        test(&service(engine));
    }
}

#[test]
fn a_file_is_written_and_read() {
    on_both(|service| {
        service.issue();
        assert_eq!(service.call(TestRequest::get(PATH)).status().code(), 404);
        let written = service.put(PATH, "text/plain", "whistle");
        assert_eq!(written.status().code(), 200, "{}", written.text());
        let file: File = serde_json::from_str(written.text()).unwrap();
        assert_eq!((&*file.name, &*file.content_type, file.bytes), ("marmot.txt", "text/plain", 7));
        let tag = format!("\"{}\"", file.sha256);
        assert_eq!(written.header("ETag"), Some(&*tag));

        let read = service.call(TestRequest::get(PATH));
        assert_eq!((read.status().code(), read.text()), (200, "whistle"));
        for (name, value) in [
            ("Content-Type", "text/plain; charset=utf-8"),
            ("Content-Length", "7"),
            ("Content-Disposition", "inline; filename=\"marmot.txt\""),
            ("X-Content-Type-Options", "nosniff"),
            ("Accept-Ranges", "bytes"),
            ("ETag", &tag),
        ] {
            assert_eq!(read.header(name), Some(value), "{name}");
        }
        let head = service.call(TestRequest::new(Method::Head, PATH));
        assert_eq!((head.status().code(), head.text()), (200, ""));
        assert_eq!(head.header("Content-Length"), Some("7"));

        let row = service.call(TestRequest::get("/api/issue/1"));
        let row: serde_json::Value = serde_json::from_str(row.text()).unwrap();
        assert_eq!(row["attachment"]["name"], "marmot.txt");
        assert_eq!(row["version"], 2);
        let filter = "/api/issue?filter=attachment.type%20%5E%20'text/'";
        assert!(service.call(TestRequest::get(filter)).text().contains("marmot.txt"));

        let other = service.put(PATH, "text/plain", "louder");
        assert_eq!(other.status().code(), 200);
        service.wait_for_files(1);
        assert_eq!(service.call(TestRequest::get(PATH)).text(), "louder");
        assert_eq!(service.call(TestRequest::new(Method::Delete, PATH)).status().code(), 204);
        service.wait_for_files(0);
        assert_eq!(service.call(TestRequest::get(PATH)).status().code(), 404);
    });
}

#[test]
fn a_deleted_row_takes_its_file_with_it() {
    on_both(|service| {
        service.issue();
        service.put(PATH, "", "whistle");
        assert_eq!(service.files(), 1);
        let deleted = service.call(TestRequest::new(Method::Delete, "/api/issue/1"));
        assert_eq!(deleted.status().code(), 204);
        service.wait_for_files(0);
    });
}

#[test]
fn parts_and_conditions() {
    on_both(|service| {
        service.issue();
        service.put(PATH, "text/plain", "0123456789");
        let get = |name: &str, value: &str| service.call(TestRequest::get(PATH).header(name, value));
        let tag = service.call(TestRequest::get(PATH)).header("ETag").unwrap().to_owned();
        for (range, status, body) in [
            ("bytes=2-4", 206, "234"),
            ("bytes=-3", 206, "789"),
            ("bytes=8-100", 206, "89"),
            ("bytes=0-1,4-5", 200, "0123456789"),
            ("lines=1-2", 200, "0123456789"),
            ("bytes=5-2", 200, "0123456789"),
        ] {
            let part = get("Range", range);
            assert_eq!((part.status().code(), part.text()), (status, body), "{range}");
        }
        assert_eq!(get("Range", "bytes=2-4").header("Content-Range"), Some("bytes 2-4/10"));
        let beyond = get("Range", "bytes=10-");
        assert_eq!(beyond.status().code(), 416);
        assert_eq!(beyond.header("Content-Range"), Some("bytes */10"));
        assert_eq!(get("If-None-Match", &tag).status().code(), 304);
        assert_eq!(get("If-None-Match", "\"x\"").status().code(), 200);
        let part = |tag: &str| {
            let request = TestRequest::get(PATH).header("Range", "bytes=2-4");
            service.call(request.header("If-Range", tag)).status().code()
        };
        assert_eq!((part(&tag), part("\"x\"")), (206, 200));

        let put = |tag: &str| {
            let request = TestRequest::put(PATH).header("If-Match", tag);
            service.call(request.body("next")).status().code()
        };
        let wrong = format!("\"{}\"", "0".repeat(64));
        assert_eq!((put(&wrong), put("\"v9\""), put("\"v2\"")), (412, 412, 200));
        assert_eq!((put("\"v2\""), put(&tag)), (412, 412));
        let tag = service.call(TestRequest::get(PATH)).header("ETag").unwrap().to_owned();
        assert_eq!(put(&tag), 200);
        let delete = |tag: &str| {
            let request = TestRequest::new(Method::Delete, PATH).header("If-Match", tag);
            service.call(request).status().code()
        };
        assert_eq!(delete(&wrong), 412);
        assert_eq!(delete("*"), 204);
        service.wait_for_files(0);
    });
}

#[test]
fn limits_hold() {
    on_both(|service| {
        service.issue();
        let photo = "/api/issue/1/photo";
        for (path, media_type, body, status) in [
            (PATH, "", vec![b'x'; 1_000_000], 200),
            (PATH, "", vec![b'x'; 1_000_001], 413),
            (photo, "image/png", PNG.to_vec(), 200),
            (photo, "image/png", b"not a picture".to_vec(), 415),
            (photo, "text/plain", PNG.to_vec(), 200),
            (photo, "image/png", b"<html><script>".to_vec(), 415),
            (photo, "", Vec::new(), 415),
            ("/api/issue/2/attachment", "", vec![b'x'; 5], 404),
            ("/api/issue/1/title", "", vec![b'x'; 5], 404),
            ("/api/issue/1/nothing", "", vec![b'x'; 5], 404),
            ("/api/issue/x/attachment", "", vec![b'x'; 5], 400),
            ("/api/issue/1/attachment?x=1", "", vec![b'x'; 5], 400),
            (PATH, "", Vec::new(), 200),
        ] {
            let put = service.put(path, media_type, body);
            assert_eq!(put.status().code(), status, "{path} {media_type}: {}", put.text());
        }
        assert_eq!(service.call(TestRequest::get(PATH)).text(), "");
        assert_eq!(service.call(TestRequest::get(photo)).header("Content-Type"), Some("image/png"));
        service.wait_for_files(2);
    });
}

#[test]
fn scripts_are_not_shown() {
    on_both(|service| {
        service.issue();
        for body in ["<!doctype html><script>", "<svg onload='x'></svg>", "<?xml version=\"1.0\"?>"] {
            assert_eq!(service.put(PATH, "text/plain", body).status().code(), 200);
            let read = service.call(TestRequest::get(PATH));
            let disposition = read.header("Content-Disposition").unwrap();
            assert!(disposition.starts_with("attachment;"), "{body}: {disposition}");
            assert!(read.header("Content-Security-Policy").unwrap().contains("sandbox"));
        }
        service.put(PATH, "text/plain", "text");
        let forced = service.call(TestRequest::get("/api/issue/1/attachment?download=1"));
        assert!(forced.header("Content-Disposition").unwrap().starts_with("attachment;"));
    });
}

#[test]
fn a_row_cannot_take_the_file_of_another() {
    on_both(|service| {
        service.issue();
        service.issue();
        service.put(PATH, "text/plain", "secret");
        let row = service.call(TestRequest::get("/api/issue/1"));
        let row: serde_json::Value = serde_json::from_str(row.text()).unwrap();
        let file = &row["attachment"];
        let patch = |key: u32, file: &serde_json::Value| {
            let body = serde_json::json!({ "attachment": file }).to_string();
            let request = TestRequest::new(Method::Patch, &format!("/api/issue/{key}"));
            service.call(request.body(body)).status().code()
        };
        // The row that was read can be sent back.
        assert_eq!(patch(1, file), 200);
        assert_eq!(patch(2, file), 422);
        let insert = serde_json::json!({ "attachment": file }).to_string();
        assert_eq!(service.call(TestRequest::post("/api/issue").body(insert)).status().code(), 422);
        let mut made_up = file.clone();
        made_up["id"] = "00000000-0000-4000-8000-000000000000".into();
        assert_eq!((patch(1, &made_up), patch(2, &made_up)), (422, 422));
        let mut renamed = file.clone();
        renamed["type"] = "text/html".into();
        assert_eq!(patch(1, &renamed), 422);
        assert_eq!(patch(1, &serde_json::json!({ "name": "x" })), 422);
        assert_eq!(patch(1, &serde_json::Value::Null), 200);
        service.wait_for_files(0);
        // Its bytes are gone, so it cannot come back.
        assert_eq!(patch(1, file), 422);
    });
}

#[test]
fn a_signed_url_needs_no_caller() {
    on_both(|service| {
        service.issue();
        service.put(PATH, "text/plain", "whistle");
        let signed = service.call(TestRequest::post("/api/issue/1/attachment/signed-url"));
        assert_eq!(signed.status().code(), 200, "{}", signed.text());
        let signed: serde_json::Value = serde_json::from_str(signed.text()).unwrap();
        let url = signed["url"].as_str().unwrap();
        assert_eq!(service.call(TestRequest::get(url)).text(), "whistle");
        for wrong in [
            url.replace("issue/1", "issue/2"),
            url.replace("attachment", "photo"),
            url.replace("expires=1", "expires=2"),
            format!("{url}0"),
            url.replace("signature=", "signature=0"),
        ] {
            assert_eq!(service.call(TestRequest::get(&wrong)).status().code(), 403, "{wrong}");
        }
        let long = "/api/issue/1/attachment/signed-url?expires_in=9999999";
        assert_eq!(service.call(TestRequest::post(long)).status().code(), 400);
        let none = "/api/issue/1/photo/signed-url";
        assert_eq!(service.call(TestRequest::post(none)).status().code(), 404);
    });
}

#[test]
fn without_a_storage_files_are_refused() {
    let store = Store::builder(Memory::new()).model::<Issue>().open().unwrap();
    let router = Api::new(&store).router();
    let put = router.call(TestRequest::put(PATH).body("x")).unwrap();
    assert_eq!(put.status().code(), 501);
    assert!(put.text().contains("--files"), "{}", put.text());
}

#[test]
fn a_sweep_removes_only_what_no_row_has() {
    on_both(|service| {
        service.issue();
        service.put(PATH, "text/plain", "whistle");
        // As a process leaves it that is killed between the bytes and the row.
        let orphan = "00112233445566778899aabbccddeeff";
        let folder = service.folder.path().join("files/files/00");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(orphan), "lost").unwrap();
        std::fs::write(folder.join(format!("{orphan}#1")), "half").unwrap();
        let none = std::time::Duration::ZERO;
        let kept = service.storage.sweep(&service.store, std::time::Duration::from_secs(60));
        assert_eq!(kept.unwrap().files, 0);
        let report = service.storage.sweep(&service.store, none).unwrap();
        assert_eq!((report.stored, report.files), (2, 1));
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
        assert_eq!(service.call(TestRequest::get(PATH)).text(), "whistle");
    });
}

#[test]
fn a_storage_belongs_to_one_database() {
    let service = service("sqlite");
    let url = format!("{}/files", service.folder.path().display());
    let storage = FileStorage::open(&url).unwrap();
    let other = storage.attach(Store::builder(Memory::new()).model::<Issue>()).open().unwrap();
    let refused = storage.start(&other).unwrap_err();
    assert!(refused.message().contains("another database"), "{refused}");
}
