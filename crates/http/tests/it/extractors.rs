//! Handlers whose arguments are typed parts of a request, and what bad input is answered.

use std::sync::{Arc, Mutex};

use marmota_http::extract::{Form, FromRequest, Json, Path, Query, State};
use marmota_http::{Method, Request, Response, Router, RunningServer, Status};

use super::client::{Client, serve};

type Names = Arc<Mutex<Vec<String>>>;

#[derive(serde::Deserialize, serde::Serialize)]
struct Sum {
    numbers: Vec<f64>,
    #[serde(default)]
    unit: Option<String>,
}

#[derive(serde::Deserialize)]
struct Page {
    page: Option<u32>,
    #[serde(default)]
    tag: Vec<String>,
}

#[derive(serde::Deserialize)]
struct Place {
    table: String,
    row: i16,
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Open,
    Done,
}

struct Key(String);

impl<S> FromRequest<S> for Key {
    fn from_request(request: &Request, _: &S) -> Result<Self, Response> {
        match request.header_text("x-key") {
            Some(key) => Ok(Self(key.to_owned())),
            None => Err(Response::problem(Status::UNAUTHORIZED, "send a key")),
        }
    }
}

async fn add(State(names): State<Names>, Json(name): Json<String>) -> Json<usize> {
    let mut names = names.lock().unwrap();
    names.push(name);
    Json(names.len())
}

async fn name(State(names): State<Names>, Path(index): Path<usize>) -> Result<String, Status> {
    names.lock().unwrap().get(index).cloned().ok_or(Status::NOT_FOUND)
}

async fn sum(Json(sum): Json<Sum>) -> Json<Sum> {
    let numbers = vec![sum.numbers.iter().sum()];
    Json(Sum { numbers, unit: sum.unit })
}

async fn list(Query(query): Query<Page>) -> String {
    format!("{:?} {:?}", query.page, query.tag)
}

async fn place(Path(place): Path<Place>) -> String {
    format!("{}/{}", place.table, place.row)
}

async fn pair(Path((text, number)): Path<(String, u8)>) -> String {
    format!("{text}/{number}")
}

async fn kind(Path(kind): Path<Kind>) -> &'static str {
    match kind {
        Kind::Open => "open",
        Kind::Done => "done",
    }
}

async fn form(Form(sum): Form<Page>, request: Request) -> String {
    format!("{:?} {:?} at {}", sum.page, sum.tag, request.path())
}

async fn key(Key(key): Key) -> String {
    key
}

fn start() -> RunningServer {
    let names = Names::default();
    let router = Router::with_state(names)
        .post("/names", add)
        .get("/names/{index}", name)
        .post("/sum", sum)
        .get("/list", list)
        .get("/place/{table}/{row}", place)
        .get("/pair/{a}/{b}", pair)
        .get("/one/{a}/{b}", |Path(text): Path<String>| async move { text })
        .get("/kind/{kind}", kind)
        .get("/other/{column}", place)
        .post("/form", form)
        .get("/key", key)
        .get("/nothing", || async { "nothing" })
        .on(Method::Put, "/small", sum, |endpoint| endpoint.body_bytes_max(20))
        .router();
    serve(Router::new().get("/", |_| async { "home" }).nest("/api", router))
}

fn send(server: &RunningServer, request: &str, body: &str) -> (u16, String) {
    let mut client = Client::new(server.local_addr());
    let length = body.len();
    client.send(format!(
        "{request} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n{body}"
    ));
    let answer = client.answer().unwrap();
    let text = match answer.status {
        200 => answer.text().to_owned(),
        _ => answer.detail().unwrap_or_default(),
    };
    (answer.status, text)
}

#[test]
fn arguments_are_parts_of_the_request() {
    let server = start();
    for (request, body, wanted) in [
        ("POST /api/names", r#""Ada""#, "1"),
        ("POST /api/names", r#""Emmy""#, "2"),
        ("GET /api/names/1", "", "Emmy"),
        ("POST /api/sum", r#"{"numbers":[1,2.5]}"#, r#"{"numbers":[3.5],"unit":null}"#),
        ("GET /api/list?page=7&tag=a&tag=b%20c&other=1", "", r#"Some(7) ["a", "b c"]"#),
        ("GET /api/list", "", "None []"),
        ("GET /api/place/a%20b/-7", "", "a b/-7"),
        ("GET /api/pair/x/255", "", "x/255"),
        ("GET /api/kind/done", "", "done"),
        ("POST /api/form", "page=3&tag=x%26y", r#"Some(3) ["x&y"] at /api/form"#),
        ("GET /api/nothing", "", "nothing"),
        ("GET /", "", "home"),
    ] {
        assert_eq!(send(&server, request, body), (200, wanted.to_owned()), "{request}");
    }
    server.shutdown().unwrap();
}

#[test]
fn bad_input_is_refused_with_its_place() {
    let server = start();
    for (request, body, status, wanted) in [
        ("POST /api/sum", "{", 400, "the body: EOF while parsing an object"),
        ("POST /api/sum", "", 400, "the body: EOF while parsing a value"),
        ("POST /api/sum", r#"{"numbers":[]} x"#, 400, "the body: trailing characters"),
        ("POST /api/sum", r#"{"numbers":[1,"b"]}"#, 422, "the body: `numbers[1]`: invalid type"),
        ("POST /api/sum", "{}", 422, "the body: missing field `numbers`"),
        ("GET /api/list?page=x", "", 400, "the query: `page`: invalid digit"),
        ("GET /api/place/a/40000", "", 404, "\"40000\" is not an integer of 16 bits"),
        ("GET /api/pair/x/256", "", 404, "\"256\" is not an unsigned integer of 8 bits"),
        ("GET /api/one/a/b", "", 500, ""),
        ("GET /api/other/7", "", 500, ""),
        ("GET /api/kind/lost", "", 404, "unknown variant `lost`"),
        ("POST /api/form", "page=-1", 422, "the form: `page`: invalid digit"),
        ("GET /api/key", "", 401, "send a key"),
        ("PUT /api/small", r#"{"numbers":[1,2,3,4,5]}"#, 413, ""),
    ] {
        let (found, detail) = send(&server, request, body);
        assert_eq!(found, status, "{request}: {detail}");
        assert!(detail.contains(wanted), "{request}: {detail}");
    }
    server.shutdown().unwrap();
}

#[test]
fn the_error_of_a_long_value_is_short() {
    let server = start();
    let body = format!(r#"{{"numbers":"{}"}}"#, "é".repeat(100_000));
    let (status, detail) = send(&server, "POST /api/sum", &body);
    assert_eq!(status, 422);
    assert!(detail.starts_with("the body: `numbers`: invalid type"), "{detail}");
    assert_eq!(detail.chars().count(), 300);
    server.shutdown().unwrap();
}

#[test]
fn pages_of_other_sites_send_no_json_and_no_forms() {
    let server = start();
    for (path, kind) in [("sum", "application/json"), ("form", "application/x-www-form-urlencoded")]
    {
        let mut client = Client::new(server.local_addr());
        client.send(format!(
            "POST /api/{path} HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.example\r\n\
             Content-Type: {kind}\r\nContent-Length: 2\r\n\r\n{{}}"
        ));
        assert_eq!(client.answer().unwrap().status, 403, "{path}");
    }
    let mut client = Client::new(server.local_addr());
    client.send(
        "POST /api/sum HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\n\
         Content-Length: 2\r\n\r\n{}",
    );
    assert_eq!(client.answer().unwrap().status, 415);
    server.shutdown().unwrap();
}
