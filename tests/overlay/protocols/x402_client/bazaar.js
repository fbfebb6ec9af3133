// Prints, as one line of JSON, what the Bazaar client of @x402/extensions reads from the facilitator of the argument.
import { HTTPFacilitatorClient } from "@x402/core/http";
import { withBazaar } from "@x402/extensions/bazaar";

const { bazaar } = withBazaar(new HTTPFacilitatorClient({ url: process.argv[2] })).extensions;
const paged = [];
for (let offset = 0, total = 1; offset < total; offset += 4) {
  const page = await bazaar.listResources({ limit: 4, offset });
  total = page.pagination.total;
  paged.push(...page.items);
}
const refused = await bazaar.listResources({ network: "!!!" }).catch((error) => error.message);
console.log(JSON.stringify({
  all: await bazaar.listResources({ limit: 100 }),
  paged,
  hits: await bazaar.search({ query: "watchtower", limit: 10 }),
  payTo: await bazaar.listResources({ payTo: "nobody" }),
  elsewhere: await bazaar.listResources({ network: "eip155:1" }),
  refused,
}));
