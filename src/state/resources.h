/* resources.h: what this process and this machine use now. */
#ifndef PD_STATE_RESOURCES_H
#define PD_STATE_RESOURCES_H

#include "base/json.h"

/* Members process {cpu_user_ms, cpu_system_ms, memory_bytes, memory_peak_bytes, threads, open_files} and system {cpus, load, memory…,
 * uptime_s}. What the system does not tell is 0. */
void pd_resources_write(pd_json_writer *w);

#endif
