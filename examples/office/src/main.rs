//! Documents from MongoDB over HTTP: a constant response, an object as JSON, a row by key, and a
//! page from a template.
#![forbid(unsafe_code)]

use std::sync::Arc;

use clap::Parser;
use marmota::http::extract::{Path, State};
use marmota::model::json::write_row;
use marmota::model::{Model as _, Scratch, Table, ValueRef};
use marmota::prelude::*;
use minijinja::{Environment, context, value::Serde};
use serde::{Deserialize, Serialize};

#[derive(Parser)]
struct Arguments {
    #[arg(long, default_value = "mongodb://127.0.0.1:27017/office")]
    db: String,
    #[arg(long, default_value = "127.0.0.1:8080")]
    listen: Vec<String>,
}

#[derive(Default, Model)]
struct OfficeLocation {
    #[model(key, rename = "_id")]
    id: String,
    #[model(rename = "tenantId", index)]
    tenant_id: String,
    #[model(not_empty)]
    name: String,
    address: String,
    latitude: Option<f64>,
    longitude: Option<f64>,
    #[model(email)]
    email: Option<String>,
    phone: Option<String>,
    #[model(rename = "sendICalNotifications")]
    send_ical_notifications: bool,
    #[model(rename = "notificationEmail", email)]
    notification_email: Option<String>,
    #[model(rename = "cateringOrderEmail", email)]
    catering_order_email: Option<String>,
    options: Json<Options>,
}

#[derive(Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
struct Options {
    available_from_hour: Option<u8>,
    available_until_hour: Option<u8>,
    alt_schedule: Vec<Day>,
    alt_available_from_hour: Option<u8>,
    alt_available_until_hour: Option<u8>,
}

#[rustfmt::skip]
#[derive(Deserialize, Serialize)]
enum Day { Mon, Tue, Wed, Thu, Fri, Sat, Sun }

/// The initial office.
fn first() -> OfficeLocation {
    OfficeLocation {
        id: "1".to_owned(),
        tenant_id: "marmota".to_owned(),
        name: "Burrow \"Nord\" & <Süd>".to_owned(),
        email: Some("office@example.org".to_owned()),
        options: Json(Options { available_until_hour: Some(18), ..Options::default() }),
        ..OfficeLocation::default()
    }
}

fn failed(error: &minijinja::Error) -> Error {
    Error::new(ErrorKind::Bug, format!("rendering the page: {error}"))
}

fn json(table: &Table, row: &[ValueRef<'_>]) -> Response {
    let mut json = Vec::with_capacity(512);
    write_row(&mut json, table, table.all(), row);
    Response::json_bytes(json)
}

/// The state that handlers share.
#[derive(Clone)]
struct Offices {
    store: Store,
    table: Arc<Table>,
    first: Arc<OfficeLocation>,
    pages: Arc<Environment<'static>>,
}

async fn hello() -> Response {
    Response::html("<h1>Hello, World!</h1>")
}

async fn first_as_json(State(offices): State<Offices>) -> Response {
    let table = &offices.table;
    let (mut row, scratch) = (vec![ValueRef::Absent; table.fields().len()], Scratch::new());
    offices.first.write(&mut row, &scratch);
    json(table, &row)
}

async fn as_json(
    State(offices): State<Offices>,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    let record = offices.store.get_record(&offices.table, id).await?;
    let row: Vec<ValueRef<'_>> = record.values().iter().map(Value::as_ref).collect();
    Ok(json(&offices.table, &row))
}

async fn page(
    State(offices): State<Offices>,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    let office = offices.store.get::<OfficeLocation>(id).await?;
    let OfficeLocation { name, address, email, .. } = &office;
    let shown = context! { name, address, email, options => Serde(&office.options.0) };
    let page = offices.pages.get_template("office.html").and_then(|page| page.render(shown));
    Ok(Response::html(page.map_err(|error| failed(&error))?))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments = Arguments::parse();
    let store = marmota::open(&arguments.db)?.model::<OfficeLocation>().open()?;
    store.insert(&first()).or_ignore().run()?;
    let (first, table) = (Arc::new(first()), store.table("office_location")?);
    let mut pages = Environment::new();
    pages.add_template("office.html", include_str!("../templates/office.html"))?;
    let router = Router::with_state(Offices { store, table, first, pages: Arc::new(pages) })
        .get("/hello", hello)
        .get("/json", first_as_json)
        .get("/mongo/{id}", as_json)
        .get("/office/{id}", page)
        .router();
    let mut server = Server::bind(&*arguments.listen[0])?;
    for address in &arguments.listen[1..] {
        server = server.also_bind(&**address)?;
    }
    Ok(server.run(router)?)
}
