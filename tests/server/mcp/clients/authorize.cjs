// Loaded before the conformance tool, which cannot be told a token: every request carries $MCP_TOKEN.
const http = require("http")
const { Agent, setGlobalDispatcher } = require("undici")

const authorization = `Bearer ${process.env.MCP_TOKEN}`

function authorized(headers) {
  if (Array.isArray(headers)) return [...headers, "authorization", authorization]
  const given = headers?.[Symbol.iterator] ? Object.fromEntries(headers) : headers
  return { ...given, authorization }
}

setGlobalDispatcher(
  new Agent().compose(
    (dispatch) => (options, handler) => dispatch({ ...options, headers: authorized(options.headers) }, handler),
  ),
)

const request = http.request
http.request = (...given) => request(...given).setHeader("authorization", authorization)
