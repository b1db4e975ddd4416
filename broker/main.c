/* main.c: holdfastd: read the options, run the node. */
#include "broker/certificates.h"
#include "broker/config.h"
#include "broker/log.h"
#include "broker/offline.h"
#include "broker/server.h"
#include "proto/status.h"

#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    static struct config config;
    struct certificates certificates;
    struct config_error error;
    enum config_action action;
    int rc;

    config_init(&config);
    rc = config_args(&config, argc, argv, &action, &error);
    if (rc == HF_OK && action == CONFIG_HELP) {
        config_help(stdout);
        return 0;
    }
    if (rc == HF_OK && action == CONFIG_MAN) {
        config_man(stdout);
        return 0;
    }
    if (rc == HF_OK && action == CONFIG_VERSION) {
        printf("holdfastd %s\n", HOLDFAST_VERSION);
        return 0;
    }
    if (rc == HF_OK) {
        rc = action == CONFIG_RESTORE || action == CONFIG_RESCUE
                 ? config_offline(&config, &error)
                 : config_finish(&config, &error);
    }
    if (rc == HF_OK && action == CONFIG_CHECK) {
        rc = certificates_load(&config, &certificates, &error);
    }
    if (rc != HF_OK) {
        log_fatal(error.what, error.why, error.remedy);
        return 2;
    }
    if (action == CONFIG_CHECK) {
        if (config.temporary_data) {
            rmdir(config.data);
        }
        certificates_done(&certificates);
        printf("holdfastd: the configuration is sound\n");
        return 0;
    }
    if (action == CONFIG_RESTORE) {
        return offline_restore(&config);
    }
    if (action == CONFIG_RESCUE) {
        return offline_rescue(&config);
    }
    return server_run(&config, argc, argv);
}
