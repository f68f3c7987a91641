//! A client in Python.
use crate::GeneratedFile;
use crate::client_table::ClientTable;
use crate::names::Application;
pub(crate) fn files(_name: &Application, _tables: &[ClientTable]) -> Vec<GeneratedFile> { vec![] }
