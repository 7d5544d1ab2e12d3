// RESP as both ends speak it: requests from strangers, replies in RESP2 and RESP3, and their parsers. No sockets, no clocks.

export { type Reply, encodeReply, type RespVersion, reply } from "./reply.ts";
export { ReplyParser, type ReplyParserLimits } from "./reply-parser.ts";
export { encodeRequest } from "./request.ts";
export { RequestParser, type RequestParserLimits, RespProtocolError } from "./request-parser.ts";
