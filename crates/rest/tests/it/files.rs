//! File fields over REST: uploads, downloads, their headers, conditions and limits.

use std::sync::Arc;

use marmota_derive::Model;
use marmota_files::{File, FileStorage};
use marmota_http::{Method, Router, TestRequest, TestResponse};
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
        let issue =
            Issue { id: 0, title: "Sounds".to_owned(), attachment: None, photo: None, version: 0 };
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
        let get =
            |name: &str, value: &str| service.call(TestRequest::get(PATH).header(name, value));
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
        for body in ["<!doctype html><script>", "<svg onload='x'></svg>", "<?xml version=\"1.0\"?>"]
        {
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
            let request = TestRequest::new(Method::Patch, format!("/api/issue/{key}"));
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
fn options_name_the_methods_of_the_field() {
    on_both(|service| {
        for (field, methods) in
            [("photo", "GET, HEAD, PUT, DELETE, OPTIONS"), ("title", "GET, HEAD, PUT, OPTIONS")]
        {
            let path = format!("/api/issue/1/{field}");
            let options = service.call(TestRequest::new(Method::Options, &path));
            assert_eq!(options.header("Allow"), Some(methods), "{field}");
        }
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

fn tus(method: Method, path: &str) -> TestRequest {
    TestRequest::new(method, path).header("Tus-Resumable", "1.0.0")
}

fn patch(path: &str, offset: u64, body: &[u8]) -> TestRequest {
    let request = tus(Method::Patch, path).header("Upload-Offset", offset.to_string());
    request.header("Content-Type", "application/offset+octet-stream").body(body)
}

const UPLOADS: &str = "/api/issue/1/attachment/uploads";

fn create(service: &Service, length: u64) -> TestResponse {
    let request = tus(Method::Post, UPLOADS).header("Upload-Length", length.to_string());
    // `a b.txt` and `text/plain`.
    service
        .call(request.header("Upload-Metadata", "filename YSBiLnR4dA==,filetype dGV4dC9wbGFpbg=="))
}

#[test]
fn an_upload_continues_after_a_restart() {
    let mut service = service("sqlite");
    service.issue();
    let created = create(&service, 10);
    assert_eq!(created.status().code(), 201, "{}", created.text());
    assert!(created.header("Upload-Expires").unwrap().ends_with("GMT"));
    let path = created.header("Location").unwrap().to_owned();
    let offset = |service: &Service| {
        let head = service.call(tus(Method::Head, &path));
        head.header("Upload-Offset").map(str::to_owned)
    };
    assert_eq!(offset(&service).as_deref(), Some("0"));
    let first = service.call(patch(&path, 0, b"01234"));
    assert_eq!((first.status().code(), first.header("Upload-Offset")), (204, Some("5")));
    assert_eq!(service.call(patch(&path, 0, b"01234")).status().code(), 409);
    assert_eq!(service.call(patch(&path, 5, b"0123456789")).status().code(), 400);

    let folder = std::mem::replace(&mut service.folder, tempfile::tempdir().unwrap());
    drop(service);
    let storage = FileStorage::open(&format!("{}/files", folder.path().display())).unwrap();
    let url = format!("sqlite:{}", folder.path().join("issues.db").display());
    let builder = Store::builder(Sqlite::from_url(&url).unwrap()).model::<Issue>();
    let store = storage.attach(builder).open().unwrap();
    storage.start(&store).unwrap();
    let router = Arc::new(Api::new(&store).files(&storage).router());
    let service = Service { folder, storage, store, router };

    assert_eq!(offset(&service).as_deref(), Some("5"));
    let wrong = patch(&path, 5, b"56789");
    let wrong = wrong.header("Upload-Checksum", format!("sha256 {}", "A".repeat(43) + "="));
    assert_eq!(service.call(wrong).status().code(), 460);
    assert_eq!(offset(&service).as_deref(), Some("5"));
    assert_eq!(service.call(patch(&path, 5, b"56789")).status().code(), 204);
    let read = service.call(TestRequest::get(PATH));
    assert_eq!(
        (read.text(), read.header("Content-Type")),
        ("0123456789", Some("text/plain; charset=utf-8"))
    );
    assert_eq!(read.header("Content-Disposition"), Some("inline; filename=\"a b.txt\""));
    assert_eq!(service.call(tus(Method::Head, &path)).status().code(), 404);
    let left = service.folder.path().join("files/uploads");
    assert_eq!(std::fs::read_dir(left).unwrap().count(), 0);
}

#[test]
fn an_upload_is_checked_and_can_be_ended() {
    on_both(|service| {
        service.issue();
        let options = service.call(TestRequest::new(Method::Options, UPLOADS));
        assert_eq!(options.header("Tus-Version"), Some("1.0.0"));
        assert_eq!(service.call(TestRequest::post(UPLOADS)).status().code(), 412);
        assert_eq!(service.call(tus(Method::Post, UPLOADS)).status().code(), 400);
        assert_eq!(create(service, 1_000_001).status().code(), 413);
        let path = create(service, 10).header("Location").unwrap().to_owned();
        let other = path.replace("attachment", "photo");
        assert_eq!(service.call(tus(Method::Head, &other)).status().code(), 404);
        let plain = tus(Method::Patch, &path).header("Upload-Offset", "0").body("x");
        assert_eq!(service.call(plain).status().code(), 415);
        assert_eq!(service.call(tus(Method::Delete, &path)).status().code(), 204);
        assert_eq!(service.call(patch(&path, 0, b"x")).status().code(), 404);
        // An empty file is complete at once.
        assert_eq!(create(service, 0).status().code(), 201);
        assert_eq!(service.call(TestRequest::get(PATH)).status().code(), 200);
        // A photo must be an image.
        let request = tus(Method::Post, "/api/issue/1/photo/uploads").header("Upload-Length", "4");
        let path = service.call(request).header("Location").unwrap().to_owned();
        assert_eq!(service.call(patch(&path, 0, b"text")).status().code(), 415);
        assert_eq!(service.call(tus(Method::Head, &path)).status().code(), 404);
    });
}

#[cfg(feature = "thumbnails")]
#[test]
fn thumbnails_are_made_once() {
    let service = service("memory");
    service.issue();
    // A valid picture of one pixel.
    let png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\x89\
        \0\0\0\rIDATx\x9cc\xf8\xcf\xc0\xf0\x1f\0\x05\0\x01\xff\x89\x99=\x1d\0\0\0\0IEND\xaeB`\x82";
    let photo = "/api/issue/1/photo";
    assert_eq!(service.put(photo, "", &png[..]).status().code(), 200);
    for _ in 0..2 {
        let small = service.call(TestRequest::get(format!("{photo}?thumbnail=64x64")));
        assert_eq!(small.status().code(), 200, "{}", small.text());
        assert_eq!(small.header("Content-Type"), Some("image/png"));
    }
    for (size, status) in [("65x64", 400), ("64", 400), ("0x0", 400), ("-1x5", 400)] {
        let small = service.call(TestRequest::get(format!("{photo}?thumbnail={size}")));
        assert_eq!(small.status().code(), status, "{size}: {}", small.text());
    }
    assert_eq!(service.put(photo, "", PNG).status().code(), 200);
    let broken = service.call(TestRequest::get(format!("{photo}?thumbnail=64x64")));
    assert_eq!(broken.status().code(), 400, "{}", broken.text());
    service.wait_for_files(1);
    let thumbnails = service.folder.path().join("files/thumbnails");
    let folders = std::fs::read_dir(thumbnails).unwrap().flatten();
    assert_eq!(folders.flat_map(|folder| std::fs::read_dir(folder.path()).unwrap()).count(), 0);
}

#[test]
fn the_documents_describe_files() {
    let service = service("memory");
    let document = service.call(TestRequest::get("/api/openapi.json"));
    let document: serde_json::Value = serde_json::from_str(document.text()).unwrap();
    let photo = &document["paths"]["/api/issue/{key}/photo"];
    assert!(photo["put"]["requestBody"]["content"]["image/*"].is_object(), "{photo}");
    assert!(photo["get"].is_object() && photo["delete"].is_object());
    let signed = &document["paths"]["/api/issue/{key}/photo/signed-url"]["post"];
    assert_eq!(signed["operationId"], "issue.photo.sign");
    let field = &document["components"]["schemas"]["issue"]["properties"]["photo"];
    assert_eq!(field["type"], serde_json::json!(["object", "null"]));
    let tables = service.call(TestRequest::get("/api"));
    assert!(tables.text().contains("\"bytes_max\":100000"), "{}", tables.text());
}

#[cfg(feature = "auth")]
#[test]
fn rights_are_those_of_the_row() {
    use marmota_auth::{Auth, Settings};
    use marmota_store::rights::{Grant, Right};

    let folder = tempfile::tempdir().unwrap();
    let storage = FileStorage::open(&folder.path().join("files").display().to_string()).unwrap();
    let builder = marmota_auth::models(Store::builder(Memory::new())).model::<Issue>();
    let store = storage.attach(builder).open().unwrap();
    storage.start(&store).unwrap();
    let grants = [
        Grant::new("issue", &[Right::Read]).rule("title = 'public'"),
        Grant::new("issue", &[Right::Read, Right::Update]).rule("title = 'shared'"),
    ];
    let settings = Settings::default().everyone(grants).password_cost(64, 1);
    let auth = Auth::new(&store, settings).unwrap();
    let router = Api::new(&store).auth(&auth).files(&storage).router();
    let (_, token) = auth.add_user("ann", &[], false).unwrap();
    auth.set_password("ann", &token, "correct horse", None).unwrap();
    let login = r#"{"name":"ann","password":"correct horse"}"#;
    let login = router.call(TestRequest::post("/api/auth/login").body(login)).unwrap();
    let login: serde_json::Value = serde_json::from_str(login.text()).unwrap();
    let bearer = format!("Bearer {}", login["token"].as_str().unwrap());
    let call = |request: TestRequest| {
        let request = request.header("Authorization", &bearer);
        router.call(request).unwrap()
    };
    for title in ["public", "shared", "secret"] {
        let file = storage.save(Issue::ATTACHMENT, "a.txt", &mut title.as_bytes()).unwrap();
        let title = title.to_owned();
        let issue = Issue { id: 0, title, attachment: Some(file), photo: None, version: 0 };
        store.insert(&issue).run().unwrap();
    }
    for (id, read, put, delete) in [(1, 200, 403, 403), (2, 200, 200, 204), (3, 404, 404, 404)] {
        let path = format!("/api/issue/{id}/attachment");
        let anonymous = router.call(TestRequest::get(&path)).unwrap();
        assert_eq!(anonymous.status().code(), 401, "{path}");
        assert_eq!(call(TestRequest::get(&path)).status().code(), read, "{path}");
        let signed = call(TestRequest::post(format!("{path}/signed-url")));
        assert_eq!(signed.status().code(), read, "{path}");
        if read == 200 {
            let signed: serde_json::Value = serde_json::from_str(signed.text()).unwrap();
            let url = signed["url"].as_str().unwrap();
            assert_eq!(router.call(TestRequest::get(url)).unwrap().status().code(), 200);
        }
        let written = call(TestRequest::put(&path).body("new"));
        assert_eq!(written.status().code(), put, "{path}: {}", written.text());
        let removed = call(TestRequest::new(Method::Delete, &path));
        assert_eq!(removed.status().code(), delete, "{path}: {}", removed.text());
    }
    let owners = router.call(TestRequest::get("/api/marmota_file_owner")).unwrap();
    assert_eq!(owners.status().code(), 401);
    assert_eq!(call(TestRequest::get("/api/marmota_file_owner")).status().code(), 404);
    storage.stop();
}

#[test]
fn a_form_inserts_a_row_with_its_files() {
    on_both(|service| {
        let form = |parts: &[(&str, &str, &str)]| {
            let mut body = String::new();
            for (name, more, value) in parts {
                body += "--x\r\nContent-Disposition: form-data; name=\"";
                body += &format!("{name}\"{more}\r\n\r\n{value}\r\n");
            }
            body += "--x--\r\n";
            let request = TestRequest::post("/api/issue");
            let kind = "multipart/form-data; boundary=x";
            service.call(request.header("Content-Type", kind).body(body))
        };
        let file = "; filename=\"../a.txt\"\r\nContent-Type: text/plain";
        let made = form(&[
            ("title", "", "Sounds"),
            ("attachment", file, "whistle"),
            ("photo", "; filename=\"\"\r\nContent-Type: application/octet-stream", ""),
        ]);
        assert_eq!(made.status().code(), 201, "{}", made.text());
        assert_eq!(made.header("Location"), Some("/api/issue/1"));
        let row: serde_json::Value = serde_json::from_str(made.text()).unwrap();
        assert_eq!((&row["title"], &row["photo"]), (&"Sounds".into(), &serde_json::Value::Null));
        assert_eq!(row["attachment"]["name"], "a.txt");
        assert_eq!(service.call(TestRequest::get(PATH)).text(), "whistle");
        for (parts, status) in [
            (&[("attachment", file, "whistle"), ("nothing", "", "x")][..], 422),
            (&[("attachment", file, "whistle"), ("id", "", "x")], 422),
            (&[("attachment", file, "whistle"), ("attachment", file, "x")], 422),
            (&[("attachment", file, "whistle"), ("photo", file, "text")], 415),
        ] {
            assert_eq!(form(parts).status().code(), status, "{parts:?}");
        }
        service.wait_for_files(1);
    });
}
