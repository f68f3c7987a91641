//! Forms with files.

use std::path::PathBuf;

use marmota_http::{
    Endpoint, Method, Multipart, MultipartError, MultipartLimits, Request, Router, RunningServer,
};

use super::client::{Answer, Client, serve};

fn body(parts: &[(&str, &[u8])]) -> Vec<u8> {
    let mut body = Vec::new();
    for (disposition, data) in parts {
        body.extend_from_slice(
            format!("--x-y\r\nContent-Disposition: form-data; {disposition}\r\n\r\n").as_bytes(),
        );
        body.extend_from_slice(data);
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(b"--x-y--\r\n");
    body
}

async fn take(request: Request, folder: PathBuf) -> Result<String, MultipartError> {
    let mut limits = MultipartLimits::default();
    (limits.parts_max, limits.text_bytes_max, limits.part_bytes_max) = (5, 100, 4 << 20);
    let mut form = Multipart::with_limits(&request, limits)?;
    let mut told = String::new();
    while let Some(mut part) = form.next().await? {
        let name = part.name().to_owned();
        if name == "skipped" {
            continue;
        }
        match part.file_name().map(str::to_owned) {
            Some(file) => {
                let bytes = part.save(folder.join(&name)).await?;
                told += &format!("{name}: {file} of {bytes}\n");
            }
            None => told += &format!("{name} = {}\n", part.text().await?),
        }
    }
    Ok(told)
}

fn server(folder: &tempfile::TempDir) -> RunningServer {
    let folder = folder.path().to_owned();
    let handler = move |request| take(request, folder.clone());
    let router = Router::new()
        .on(Method::Post, "/streamed", Endpoint::future(handler.clone()).streamed(8 << 20))
        .on(Method::Post, "/whole", Endpoint::future(handler).body_bytes_max(8 << 20));
    serve(router)
}

fn send(server: &RunningServer, path: &str, body: &[u8]) -> (Client, Answer) {
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\nContent-Type: multipart/form-data; boundary=\"x-y\"\r\n\r\n",
        body.len()
    );
    let mut client = Client::new(server.local_addr());
    let answer = client.send(head).send(body).answer().unwrap();
    (client, answer)
}

#[test]
fn files_go_to_the_disk_and_fields_to_the_handler() {
    let large: Vec<u8> = (0..3_000_000_u32).map(|at| (at % 251) as u8).collect();
    let form = body(&[
        ("name=\"title\"", "Grüße".as_bytes()),
        ("name=\"skipped\"", &[b'\r'; 100_000]),
        ("name=\"file\"; filename=\"../../etc/p.bin\"", &large),
        ("name=\"empty\"; filename=\"\"", b""),
    ]);
    for path in ["/streamed", "/whole"] {
        let folder = tempfile::tempdir().unwrap();
        let server = server(&folder);
        let (mut client, answer) = send(&server, path, &form);
        let told = "title = Grüße\nfile: p.bin of 3000000\nempty:  of 0\n";
        assert_eq!((answer.status, answer.text()), (200, told), "{path}");
        assert!(std::fs::read(folder.path().join("file")).unwrap() == large);
        // The next request on the connection is understood.
        assert_eq!(
            client.send("GET /no HTTP/1.1\r\nHost: a\r\n\r\n").answer().unwrap().status,
            404
        );
        // A name that is taken is not written over.
        assert_eq!(send(&server, path, &form).1.status, 500);
    }
}

#[test]
fn forms_that_cannot_be_taken_leave_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(&folder);
    let too_many: Vec<(&str, &[u8])> = vec![("name=a", b"1"); 6];
    let file = "name=f; filename=f";
    let cut = body(&[(file, &[1; 10_000])]);
    for (form, status, text) in [
        (body(&too_many), 413, "too many parts"),
        (body(&[("name=long", &[b'a'; 101])]), 413, "\"long\" is too large"),
        (body(&[(file, &vec![1; (4 << 20) + 1])]), 413, "\"f\" is too large"),
        (body(&[("name=t", b"\xff")]), 400, "\"t\" is not UTF-8"),
        (body(&[("nameless", b"")]), 400, "a part has no name"),
        (cut[..9_000].to_vec(), 400, "ends inside a part"),
        (b"no form at all".to_vec(), 400, "malformed"),
    ] {
        let (_, answer) = send(&server, "/streamed", &form);
        assert_eq!(answer.status, status, "{answer:?}");
        let said = answer.text().replace("\\\"", "\"");
        assert!(said.contains(text), "{answer:?}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "{text}");
    }
    let mut client = Client::new(server.local_addr());
    let request = "POST /whole HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n1";
    assert_eq!(client.send(request).answer().unwrap().status, 415);
}
