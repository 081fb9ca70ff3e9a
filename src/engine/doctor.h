/* doctor.h: between the two files of the doctor. Private to src/engine. */
#ifndef PD_ENGINE_DOCTOR_H
#define PD_ENGINE_DOCTOR_H

#include <perdure/perdure.h>

typedef struct pd_doctor_view {
  const char *uri;
  const char *folder; /* of a sqlite home; NULL: it has none */
  void (*visit)(void *ctx, const pd_diagnosis *diagnosis);
  void *ctx;
  pd_severity worst;
  char (*agents)[PD_NAME_SIZE_MAX + 1];
  size_t agent_count, agent_capacity;
  bool failed; /* no memory for the list of agents */
} pd_doctor_view;

/* Tell one diagnosis; `action` may be "". */
void pd_diagnose(pd_doctor_view *v, pd_severity severity, const char *agent, const char *action, const char *fmt, ...) PD_PRINTF(5, 6);

/* The folder and its files (doctor_home.c); false if there is no home to look into. */
bool pd_doctor_folder(pd_doctor_view *v);
/* The files of one store, from outside. */
void pd_doctor_files(pd_doctor_view *v, const char *agent);

#endif
