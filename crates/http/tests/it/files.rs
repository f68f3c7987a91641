//! Files of a folder.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, SystemTime};

use marmota_http::{Files, Router, RunningServer, Symlinks};
use tempfile::TempDir;

use super::client::{Answer, Client, bind, get, serve};

const PROBLEM: &str = "{\"type\":\"about:blank\",\"title\":\"Not Found\",\"status\":404}";

fn put(folder: &Path, name: &str, bytes: impl AsRef<[u8]>) {
    let path = folder.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

fn large() -> Vec<u8> {
    (0..3_000_000_u32).map(|at| (at / 7) as u8).collect()
}

/// A folder with something of everything.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let public = folder.path().join("public");
    put(folder.path(), "secret.txt", "secret");
    put(&public, "a.txt", "0123456789");
    put(&public, "empty.css", "");
    put(&public, "large.bin", large());
    put(&public, "page/index.html", "<p>index</p>");
    put(&public, "list/<b>&.txt", "odd name");
    put(&public, "list/.hidden", "hidden");
    put(&public, "sp ace/ü.txt", "umlaut");
    put(&public, ".git/config", "hidden");
    put(&public, ".well-known/token", "found");
    put(&public, "app.js", "let plain = 1;");
    put(&public, "app.js.gz", "gzip bytes");
    put(&public, "app.js.br", "br bytes");
    symlink("a.txt", public.join("inner")).unwrap();
    symlink("../secret.txt", public.join("outer")).unwrap();
    symlink("..", public.join("up")).unwrap();
    folder
}

fn serving(folder: &TempDir, set: fn(Files) -> Files) -> RunningServer {
    let files = set(Files::new(folder.path().join("public")));
    serve(Router::new().files("/f", files))
}

fn with(server: &RunningServer, method: &str, path: &str, more: &str) -> Answer {
    let request = format!("{method} {path} HTTP/1.1\r\nHost: a\r\n{more}\r\n");
    Client::new(server.local_addr()).send(request).answer_to(method).unwrap()
}

#[test]
fn files_are_found_and_nothing_else_is() {
    let folder = folder();
    let server = serving(&folder, |files| files);
    for (path, status, body) in [
        ("/f/a.txt", 200, "0123456789"),
        ("/f/%61.txt", 200, "0123456789"),
        ("/f/a.txt?query", 200, "0123456789"),
        ("/f/empty.css", 200, ""),
        ("/f/page/", 200, "<p>index</p>"),
        ("/f/sp%20ace/%C3%BC.txt", 200, "umlaut"),
        ("/f/.well-known/token", 200, "found"),
        ("/f/inner", 200, "0123456789"),
        ("/f/outer", 404, PROBLEM),
        ("/f/up/secret.txt", 404, PROBLEM),
        ("/f/up/public/a.txt", 404, PROBLEM),
        ("/f/.git/config", 404, PROBLEM),
        ("/f/../secret.txt", 404, PROBLEM),
        ("/f/%2e%2e/secret.txt", 404, PROBLEM),
        ("/f/..%2fsecret.txt", 404, PROBLEM),
        ("/f//etc/passwd", 404, PROBLEM),
        ("/f/a.txt/", 404, PROBLEM),
        ("/f/a.txt/b", 404, PROBLEM),
        ("/f/a.txt%00", 404, PROBLEM),
        ("/f/no", 404, PROBLEM),
        ("/f/list/", 404, PROBLEM),
    ] {
        let answer = get(server.local_addr(), path);
        assert_eq!((answer.status, answer.text()), (status, body), "{path}");
    }
    let answer = get(server.local_addr(), "/f/page?a=b");
    assert_eq!((answer.status, answer.header("location")), (301, Some("/f/page/?a=b")));
    assert_eq!(get(server.local_addr(), "/f").header("location"), Some("/f/"));
    let answer = with(&server, "HEAD", "/f/a.txt", "");
    assert_eq!((answer.status, answer.header("content-length")), (200, Some("10")));
    assert_eq!(answer.header("content-type"), Some("text/plain; charset=utf-8"));
    assert_eq!(with(&server, "DELETE", "/f/a.txt", "").status, 405);
    let answer = get(server.local_addr(), "/f/large.bin");
    assert!(answer.body == large() && answer.header("content-length") == Some("3000000"));
}

#[test]
fn links_are_followed_as_said() {
    let folder = folder();
    let refused = serving(&folder, |files| files.symlinks(Symlinks::Refused));
    assert_eq!(get(refused.local_addr(), "/f/inner").status, 404);
    let followed = serving(&folder, |files| files.symlinks(Symlinks::Followed));
    assert_eq!(get(followed.local_addr(), "/f/outer").text(), "secret");
    assert_eq!(get(followed.local_addr(), "/f/../secret.txt").status, 404);
}

#[test]
fn what_a_client_has_is_not_sent_again() {
    let folder = folder();
    let server = serving(&folder, |files| files.cache_control("max-age=60"));
    let first = get(server.local_addr(), "/f/a.txt");
    let (etag, modified) = (first.header("etag").unwrap(), first.header("last-modified").unwrap());
    assert_eq!(first.header("cache-control"), Some("max-age=60"));
    let earlier = httpdate::fmt_http_date(SystemTime::now() - Duration::from_secs(9_999));
    for (headers, status) in [
        (format!("If-None-Match: {etag}\r\n"), 304),
        (format!("If-None-Match: \"x\", W/{etag}\r\n"), 304),
        ("If-None-Match: *\r\n".to_owned(), 304),
        ("If-None-Match: \"x\"\r\n".to_owned(), 200),
        (format!("If-Modified-Since: {modified}\r\n"), 304),
        (format!("If-Modified-Since: {earlier}\r\n"), 200),
        ("If-Modified-Since: yesterday\r\n".to_owned(), 200),
        // The tag decides where there is one.
        (format!("If-None-Match: \"x\"\r\nIf-Modified-Since: {modified}\r\n"), 200),
    ] {
        let answer = with(&server, "GET", "/f/a.txt", &headers);
        assert_eq!(answer.status, status, "{headers}");
        assert_eq!(answer.header("etag"), Some(etag), "{headers}");
    }
}

#[test]
fn several_parts_are_one_answer() {
    let folder = folder();
    let large: String = (0..100_000).map(|number| format!("{number:07}\n")).collect();
    std::fs::write(folder.path().join("public/large.txt"), &large).unwrap();
    let server = serving(&folder, |files| files);
    for (path, whole, ranges) in [
        ("/f/a.txt", "0123456789", &[(0, 2), (4, 6)][..]),
        ("/f/large.txt", &large, &[(8, 400_000), (500_000, 500_001), (0, 8)]),
    ] {
        let asked: Vec<String> =
            ranges.iter().map(|(start, end)| format!("{start}-{}", end - 1)).collect();
        let header = format!("Range: bytes={}\r\n", asked.join(", "));
        let answer = with(&server, "GET", path, &header);
        assert_eq!((answer.status, answer.header("content-range")), (206, None), "{path}");
        let boundary = answer.header("content-type").unwrap();
        let boundary = boundary.strip_prefix("multipart/byteranges; boundary=").unwrap();
        let length = whole.len();
        let mut expected = String::new();
        for &(start, end) in ranges {
            expected += &format!(
                "\r\n--{boundary}\r\nContent-Type: text/plain; charset=utf-8\r\n\
                 Content-Range: bytes {start}-{}/{length}\r\n\r\n{}",
                end - 1,
                &whole[start..end]
            );
        }
        expected += &format!("\r\n--{boundary}--\r\n");
        assert!(answer.text() == expected, "{path}");
    }
}

#[test]
fn parts_are_sent() {
    let folder = folder();
    let server = serving(&folder, |files| files);
    let etag = get(server.local_addr(), "/f/a.txt").header("etag").unwrap().to_owned();
    for (headers, status, range, body) in [
        ("Range: bytes=2-4\r\n", 206, Some("bytes 2-4/10"), "234"),
        ("Range: bytes=-3\r\n", 206, Some("bytes 7-9/10"), "789"),
        ("Range: bytes=0-\r\n", 206, Some("bytes 0-9/10"), "0123456789"),
        ("Range: bytes=10-\r\n", 416, Some("bytes */10"), ""),
        ("Range: bytes=0-1,20-25\r\n", 206, Some("bytes 0-1/10"), "01"),
        ("Range: bytes=0-4,4-5\r\n", 200, None, "0123456789"),
        ("Range: bytes=2-4\r\nIf-Range: \"x\"\r\n", 200, None, "0123456789"),
    ] {
        let answer = with(&server, "GET", "/f/a.txt", headers);
        let found = (answer.status, answer.header("content-range"), answer.text());
        assert_eq!(found, (status, range, body), "{headers}");
    }
    let same = format!("Range: bytes=2-4\r\nIf-Range: {etag}\r\n");
    assert_eq!(with(&server, "GET", "/f/a.txt", &same).status, 206);
    let answer = with(&server, "GET", "/f/large.bin", "Range: bytes=1000000-2499999\r\n");
    assert!(answer.body == large()[1_000_000..2_500_000]);
}

#[test]
fn codings_beside_a_file_are_sent_to_those_who_take_them() {
    let folder = folder();
    let server = serving(&folder, |files| files);
    let mut tags = Vec::new();
    for (accept, coding, body) in [
        ("", None, "let plain = 1;"),
        ("Accept-Encoding: gzip\r\n", Some("gzip"), "gzip bytes"),
        ("Accept-Encoding: gzip, deflate, br, zstd\r\n", Some("br"), "br bytes"),
        ("Accept-Encoding: zstd\r\n", None, "let plain = 1;"),
    ] {
        let answer = with(&server, "GET", "/f/app.js", accept);
        assert_eq!((answer.header("content-encoding"), answer.text()), (coding, body), "{accept}");
        assert_eq!(answer.header("vary"), Some("Accept-Encoding"));
        assert_eq!(answer.header("content-type"), Some("text/javascript; charset=utf-8"));
        tags.push(answer.header("etag").unwrap().to_owned());
    }
    assert_eq!(tags[0], tags[3]);
    assert!(tags[0] != tags[1] && tags[1] != tags[2]);
    // One that is older than its file is of what it was before.
    let public = folder.path().join("public");
    put(&public, "old.js", "new");
    put(&public, "old.js.gz", "old");
    let long_ago = SystemTime::now() - Duration::from_secs(100);
    fs::File::options()
        .write(true)
        .open(public.join("old.js.gz"))
        .unwrap()
        .set_modified(long_ago)
        .unwrap();
    assert_eq!(with(&server, "GET", "/f/old.js", "Accept-Encoding: gzip\r\n").text(), "new");
}

#[test]
fn a_change_is_noticed() {
    let folder = folder();
    let server = serving(&folder, |files| files);
    assert_eq!(get(server.local_addr(), "/f/a.txt").text(), "0123456789");
    put(&folder.path().join("public"), "a.txt", "new");
    std::thread::sleep(Duration::from_millis(1_200));
    assert_eq!(get(server.local_addr(), "/f/a.txt").text(), "new");
    fs::remove_file(folder.path().join("public/a.txt")).unwrap();
    std::thread::sleep(Duration::from_millis(1_200));
    assert_eq!(get(server.local_addr(), "/f/a.txt").status, 404);
}

#[test]
fn folders_are_listed_and_paths_fall_back_if_that_is_wanted() {
    let folder = folder();
    let server = serving(&folder, Files::listed);
    let page = get(server.local_addr(), "/f/list/");
    assert!(
        page.text().contains("<a href=\"./%3Cb%3E%26.txt\">&lt;b&gt;&amp;.txt</a>"),
        "{page:?}"
    );
    assert!(!page.text().contains("hidden"));
    assert!(get(server.local_addr(), "/f/").text().contains("<a href=\"./list/\">list/</a>"));
    let server = serving(&folder, |files| files.fallback("page/index.html"));
    assert_eq!(get(server.local_addr(), "/f/people/7").text(), "<p>index</p>");
    assert_eq!(get(server.local_addr(), "/f/a.txt").text(), "0123456789");
}

#[test]
fn a_folder_that_is_not_there_is_refused_at_the_start() {
    let error = bind().start(Router::new().files("/f", "/no/such/folder")).unwrap_err();
    assert!(error.to_string().contains("/no/such/folder"), "{error}");
}
