//! `on_delete` on a field that is no reference, with an unknown action, and without an `Option`.

use marmota_derive::Model;
use marmota_model::Ref;

#[derive(Model)]
struct Parent {
    id: i64,
}

#[derive(Model)]
struct Issue {
    id: i64,
    #[model(on_delete = "cascade")]
    title: String,
    #[model(on_delete = "delete")]
    parent: Ref<Parent>,
    #[model(on_delete = "set_null")]
    project: Ref<Parent>,
}

fn main() {}
