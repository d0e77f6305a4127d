/** Which addresses are not of the public network (RFC 6890 and its successors), whatever form they are written in. */
import { BlockList, isIP } from "node:net";

const [blocked4, blocked6] = [new BlockList(), new BlockList()];
const v4 = [
  ["0.0.0.0", 8],
  ["10.0.0.0", 8],
  ["100.64.0.0", 10],
  ["127.0.0.0", 8],
  ["169.254.0.0", 16],
  ["172.16.0.0", 12],
  ["192.0.0.0", 24],
  ["192.0.2.0", 24],
  ["192.168.0.0", 16],
  ["198.18.0.0", 15],
  ["198.51.100.0", 24],
  ["203.0.113.0", 24],
  ["224.0.0.0", 3],
] as const;
for (const [net, prefix] of v4) blocked4.addSubnet(net, prefix, "ipv4");
/** The public network is 2000::/3; inside it, these translate to or tunnel IPv4, or are for documents. */
const v6 = [["::", 3], ["4000::", 2], ["8000::", 1], ["2001::", 23], ["2001:db8::", 32], ["2002::", 16]] as const;
for (const [net, prefix] of v6) blocked6.addSubnet(net, prefix, "ipv6");

/** True for a loopback, private, link-local, multicast or reserved address, and for what is no address. */
export function isPrivate(address: string): boolean {
  const kind = isIP(address);
  return kind === 4 ? blocked4.check(address, "ipv4") : kind === 0 || blocked6.check(address, "ipv6");
}
