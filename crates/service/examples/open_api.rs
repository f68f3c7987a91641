//! Prints the document of an API with tables, logins, services and a described route, as `GET /api/openapi.json` answers
//! it: `cargo run -p marmota-service --example open_api`.

use std::collections::BTreeMap;

use marmota_auth::{Auth, Settings};
use marmota_derive::{method, service};
use marmota_http::extract::{Form, Json, Path, Query};
use marmota_http::{Html, Router, Server, Status, described};
use marmota_memory::Memory;
use marmota_model::{Field, Kind, Result, Role, Schema};
use marmota_rest::Api;
use marmota_service::{ByteStream, ItemStream, Services};
use marmota_store::Store;

#[service]
trait Files {
    async fn put(&self, name: String, replaces: Option<bool>, content: ByteStream) -> Result<u64>;
    async fn get(&self, name: String) -> Result<ByteStream>;
    async fn sizes(&self, names: Vec<String>) -> Result<BTreeMap<String, Option<u64>>>;
    async fn lines(&self, numbers: ItemStream<(u32, f64)>) -> Result<ItemStream<String>>;
    async fn clear(&self) -> Result<()>;
}

#[method]
async fn sum(a: i64, b: Option<i64>, more: Vec<i64>) -> Result<i64> {
    Ok(a + b.unwrap_or_default() + more.iter().sum::<i64>())
}

/// How a greeting is written.
#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Options {
    /// In capital letters.
    #[serde(default)]
    loud: bool,
    words: Option<Vec<String>>,
}

/// A greeting, with the one that it answers.
#[derive(serde::Deserialize, serde::Serialize, schemars::JsonSchema)]
struct Greeting {
    text: String,
    answers: Option<Box<Greeting>>,
}

async fn greet(
    Path((name, count)): Path<(String, u8)>,
    Query(options): Query<Options>,
    Json(greeting): Json<Greeting>,
) -> Result<Json<Vec<Greeting>>, Status> {
    let text = format!("{name} {count} {} {:?}", options.loud, options.words);
    Ok(Json(vec![Greeting { text, answers: Some(Box::new(greeting)) }]))
}

async fn sign(Form(greeting): Form<Options>) -> Html<String> {
    Html(format!("<p>{}</p>", greeting.loud))
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let fields = vec![
        Field::new("id", Kind::I64).role(Role::Key),
        Field::new("name", Kind::TEXT).unique(true),
        Field::new("born", Kind::Date).nullable(true),
        Field::new("photo", Kind::Blob).nullable(true),
        Field::new("paid", Kind::Currency).nullable(true),
    ];
    let person = Schema { audit: true, ..Schema::new("person", fields) };
    let store = marmota_auth::models(Store::builder(Memory::new()).schema(person)).open()?;
    let auth = Auth::new(&store, Settings::default().password_cost(8, 1))?;
    let services = Services::new().service(FilesService::mock().hosted())?.method::<sum>()?;
    let services = services.auth(&auth);
    let greet = described(greet).summary("Greets").error(Status::CONFLICT, "It was greeted before");
    let routes = Router::with_state(())
        .post("/greet/{name}/{count:int}", greet)
        .post("/sign", described(sign).tag("book"))
        .router();
    let document = services.open_api().title("People").routes(&routes);
    let api = Api::new(&store).auth(&auth).openapi(document).router();
    let server = Server::bind("127.0.0.1:0")?
        .listeners(1)
        .start(services.router().nest("", api).nest("", routes))?;
    let token = auth.setup_token().ok_or("nobody was to be told")?;
    auth.set_password("admin", token, "a long password", None)?;
    let token = auth.login("admin", "a long password", None)?.token;
    let url = format!("http://{}/api/openapi.json", server.local_addr());
    let asked = ureq::get(url).header("Authorization", format!("Bearer {token}"));
    println!("{}", asked.call()?.body_mut().read_to_string()?);
    server.shutdown()?;
    Ok(())
}
