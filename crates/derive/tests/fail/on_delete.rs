//! `on_delete` on a field that is no reference, with an unknown action, and without an `Option`.

use marmota_derive::Model;
use marmota_model::Ref;

#[derive(Model)]
struct Issue {
    id: i64,
    #[model(on_delete = "cascade")]
    title: String,
    #[model(on_delete = "delete")]
    parent: Ref<Issue>,
    #[model(on_delete = "set_null")]
    project: Ref<Issue>,
}

fn main() {}
