// The office server's routes on Node's own http server and the official
// driver: node server.js PORT URL
import { createServer } from "node:http";
import { MongoClient } from "mongodb";

const [port, url] = process.argv.slice(2);
const client = await new MongoClient(url).connect();
const offices = client.db().collection("office_location");
const office = await offices.findOne({ _id: "1" }, { projection: { _order: 0 } });

function send(response, type, body) {
  response.writeHead(200, { "Content-Type": type, "Content-Length": Buffer.byteLength(body) });
  response.end(body);
}

createServer(async (request, response) => {
  if (request.url === "/hello") {
    send(response, "text/html; charset=utf-8", "<h1>Hello, World!</h1>");
  } else if (request.url === "/json") {
    send(response, "application/json", JSON.stringify(office));
  } else if (request.url.startsWith("/mongo/")) {
    const found = await offices.findOne({ _id: decodeURIComponent(request.url.slice(7)) });
    send(response, "application/json", JSON.stringify(found));
  } else {
    response.writeHead(404).end();
  }
}).listen(Number(port), "127.0.0.1");
