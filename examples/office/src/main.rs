//! Offices from MongoDB over HTTP: a fixed page, an object, a row by its key, and a template's page.
#![forbid(unsafe_code)]

use std::sync::Arc;

use clap::Parser;
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

/// The office that is always there.
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
    Error::new(ErrorKind::Bug, format!("the page has failed: {error}"))
}

fn json(table: &Table, row: &[ValueRef<'_>]) -> Response {
    let mut json = Vec::with_capacity(512);
    write_row(&mut json, table, table.all(), row);
    Response::json_bytes(json)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments = Arguments::parse();
    let store = marmota::open(&arguments.db)?.model::<OfficeLocation>().open()?;
    store.insert(&first()).or_ignore().run()?;
    let (fixed, table) = (first(), store.table("office_location")?);
    let (db, shown) = (Arc::new((store.clone(), Arc::clone(&table))), store.clone());
    let mut pages = Environment::new();
    pages.add_template("office.html", include_str!("../templates/office.html"))?;
    let pages = Arc::new(pages);
    let router = Router::new()
        .get("/hello", |_| async { Response::html("<h1>Hello, World!</h1>") })
        .get("/json", move |_| {
            let (mut row, scratch) = (vec![ValueRef::Absent; table.fields().len()], Scratch::new());
            fixed.write(&mut row, &scratch);
            std::future::ready(json(&table, &row))
        })
        .get("/mongo/{id}", move |request: Request| {
            let (db, id) = (Arc::clone(&db), request.param("id").map(|id| id.into_owned()));
            async move {
                let record = db.0.get_record(&db.1, id.unwrap_or_default()).await?;
                let row: Vec<ValueRef<'_>> = record.values().iter().map(Value::as_ref).collect();
                Ok::<_, ApiError>(json(&db.1, &row))
            }
        })
        .get("/office/{id}", move |request: Request| {
            let (pages, store) = (Arc::clone(&pages), shown.clone());
            let id = request.param("id").unwrap_or_default().into_owned();
            async move {
                let office = store.get::<OfficeLocation>(id).await?;
                let OfficeLocation { name, address, email, .. } = &office;
                let shown = context! { name, address, email, options => Serde(&office.options.0) };
                let page = pages.get_template("office.html").and_then(|page| page.render(shown));
                Ok::<_, ApiError>(Response::html(page.map_err(|error| failed(&error))?))
            }
        });
    let mut server = Server::bind(&*arguments.listen[0])?;
    for address in &arguments.listen[1..] {
        server = server.also_bind(&**address)?;
    }
    Ok(server.run(router)?)
}
