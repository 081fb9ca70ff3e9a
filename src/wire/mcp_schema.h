/* mcp_schema.h: the schemas of a capability as MCP clients like them. */
#ifndef PD_WIRE_MCP_SCHEMA_H
#define PD_WIRE_MCP_SCHEMA_H

#include "base/json.h"

/* Write a schema of capabilities/NAME.json. Formats that only perdure knows are left out; a value of any type is spelt as anyOf of single
 * types, since several clients refuse a schema without a type. `extra`: more properties as JSON members, may be NULL. */
void pd_mcp_schema_write(pd_json_writer *w, pd_json schema, const char *extra);

#endif
