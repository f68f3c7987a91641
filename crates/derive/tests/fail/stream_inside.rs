//! A stream is a parameter or the whole result.

use marmota_derive::service;

#[service]
trait Files {
    async fn get(&self, name: String) -> Result<Option<ByteStream>>;
    async fn sum(&self, numbers: Vec<ItemStream<i64>>) -> Result<(u8, ByteStream)>;
    async fn sums(&self, numbers: ItemStream<ItemStream<i64>>) -> Result<i64>;
}

fn main() {}
