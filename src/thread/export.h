/* export.h: the numbers of the form in which threads travel; between export.c and import.c. */
#ifndef PD_THREAD_EXPORT_H
#define PD_THREAD_EXPORT_H

#define PD_EXPORT_FORMAT 1
#define PD_EXPORT_SIZE_MAX ((uint64_t)1 << 30)         /* if the importer says nothing else */
#define PD_EXPORT_LINE_MAX (2 * PD_CHANGESET_SIZE_MAX) /* a change set and what is around it; a snapshot of version 0 */

#endif
