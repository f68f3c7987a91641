// Offices 1 to 100, each like the first: node offices.js URL
import { MongoClient } from "mongodb";

const client = await new MongoClient(process.argv[2]).connect();
const offices = client.db().collection("office_location");
const office = await offices.findOne({ _id: "1" });
for (let number = 2; number <= 100; number += 1) {
  const _id = String(number);
  await offices.replaceOne({ _id }, { ...office, _id, name: `Office ${number}` }, { upsert: true });
}
await client.close();
